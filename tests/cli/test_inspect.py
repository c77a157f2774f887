from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from signwise.cli import main
from signwise.program import IntegerProgram, Program

fuzz = runpy.run_path(str(Path(__file__).parents[1] / "fuzz_file.py"))
sample: Callable[[], Program] = fuzz["sample_program"]
integer_program: Callable[[], IntegerProgram] = fuzz["integer_program"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.sw"
    sample().save(path)
    return path


def test_the_table_shows_bits_and_bytes_and_what_stayed_float(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file)]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert lines["3"].split() == ["3", "conv", "block", "4x9x8", "uint8", "1", "72", "44"]
    assert "2 layers, 120 weights (stem, head)" in lines["float"]
    assert "3 layers, 1,315 weights of one bit" in lines["binary"]
    assert f"{file.stat().st_size:,}: tensors {sample().nbytes:,}, header" in lines["bytes"]
    assert "made for  tests of the reader" in out
    assert "bits per weight" in out and "times smaller than with float32 weights" in out


def test_the_table_of_a_program_in_integers_shows_its_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.sw"
    integer_program().save(path)
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert lines["2"].split() == ["2", "conv", "step2", "6x9x4", "int8", "1", "162", "60"]
    assert lines["10"].split() == ["10", "dense", "step10", "5x1x1", "uint8", "1", "800", "130"]
    assert lines["11"].split() == ["11", "dense", "step11", "3", "int32", "8", "15", "33"]
    assert "2 layers, 123 weights (step1, step11)" in lines["8-bit"]
    assert main(["inspect", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sum(row["bytes"] for row in document["operations"]) == document["tensor_bytes"]


def test_a_shipped_program_is_shown_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "lenet5-mnist-1bit"]) == 0
    assert "dataset" in capsys.readouterr().out


def test_the_bytes_of_the_rows_are_those_of_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    header = 8 + int.from_bytes(file.read_bytes()[:8], "little")
    assert sum(row["bytes"] for row in document["operations"]) == document["tensor_bytes"]
    assert document["tensor_bytes"] + header == document["file_bytes"] == file.stat().st_size
    assert document["input_shape"] == [2, 9, 8] and document["output_shape"] == [3]


def test_a_damaged_file_is_one_sentence_and_exit_code_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(file.read_bytes()[:-3])
    assert main(["inspect", str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("signwise: ") and "net.sw" in error and error.count("\n") == 1


def test_it_works_without_pytorch(file: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from signwise.cli import main; sys.exit(main(sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", code, "inspect", str(file)], check=True, capture_output=True)
