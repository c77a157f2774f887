from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from signwise.cli import main
from signwise.export import to_c
from signwise.program import IntegerProgram, Program


def test_a_packed_file_becomes_an_onnx_model_of_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "lenet5-mnist-1bit", "--to", "onnx"]) == 0
    made = tmp_path / "lenet5-mnist-1bit.onnx"
    assert f"lenet5-mnist-1bit.onnx: {made.stat().st_size:,} bytes" in capsys.readouterr().out
    assert made.stat().st_size < 90_000
    examples = np.random.default_rng(0).integers(0, 256, (2, 1, 28, 28)).astype(np.float32)
    found = onnxruntime.InferenceSession(str(made), providers=["CPUExecutionProvider"]).run(None, {"input": examples})
    np.testing.assert_allclose(found[0], Program.load("lenet5-mnist-1bit")(examples), rtol=1e-4, atol=1e-3)


def test_weights_may_be_written_as_floats(tmp_path: Path) -> None:
    out = tmp_path / "net.onnx"
    assert main(["export", "lenet5-mnist-1bit", "--to", "onnx", "-o", str(out), "--float-weights"]) == 0
    assert out.stat().st_size > 1_600_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lenet5", "--to", "onnx"], "did you mean lenet5-mnist-1bit"),
        (["lenet5-mnist-1bit", "--to", "elf"], "invalid choice: 'elf'"),
        (["lenet5-mnist-1bit", "--to", "gguf"], "from the PyTorch model, with signwise.export.gguf(model, path)"),
        (["lenet5-mnist-1bit"], "required: --to"),
        ([".", "--to", "onnx"], "pack a run first with signwise compile"),
        (["lenet5-mnist-1bit", "--to", "onnx", "-o", "absent/net.onnx"], "cannot write"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["export", *words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2 and message in capsys.readouterr().err


def test_a_packed_file_becomes_c_that_is_as_good_in_integers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "lenet5-mnist-1bit", "--to", "c", "-o", str(tmp_path / "net"), "--name", "digits"]
    assert main([*words, "--calibrate", "16", "--validate", "50"]) == 0
    printed = capsys.readouterr().out
    assert "flash: 61,763 bytes of weights" in printed and "DIGITS_ARENA_BYTES" in printed
    error = "0.00 % of the first 50 of 10,000 examples"
    assert f"test error: {error} for the file, {error} in integers" in printed
    assert "digits_run(const int8_t *input, int32_t *output, void *arena)" in (tmp_path / "net/digits.h").read_text()


@pytest.fixture
def integer_file(tmp_path: Path) -> Path:
    """A shipped network in integers alone, as a file that does not name its data set."""
    program = Program.load("tiny_cnn-mnist-1bit")
    integers = replace(program, about={}).to_integers(np.random.default_rng(0).integers(0, 256, (8, 1, 28, 28)))
    integers.save(tmp_path / "integers.sw")
    return tmp_path / "integers.sw"


def test_a_file_in_integers_becomes_c_without_a_data_set(
    integer_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(integer_file), "--to", "c", "-o", str(tmp_path / "net")]) == 0
    assert "flash: 7,794 bytes of weights" in capsys.readouterr().out
    made = {path.name: path.read_text() for path in (tmp_path / "net").iterdir()}
    assert made == to_c(IntegerProgram.load(integer_file)).files


@pytest.mark.parametrize("words", [["export", "--to", "onnx"], ["export", "--to", "wasm"], ["bench"]])
def test_what_takes_no_file_in_integers_says_what_does(
    words: list[str], integer_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([words[0], str(integer_file), *words[1:]]) == 2
    assert (
        "holds a program in integers alone: signwise.load, eval, inspect and export --to c" in capsys.readouterr().err
    )


def test_c_needs_a_data_set_to_choose_scales_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Program(input_shape=(3,), ops=(), tensors={}, output=0)
    program.save(tmp_path / "net.sw")
    assert main(["export", str(tmp_path / "net.sw"), "--to", "c"]) == 2
    assert "does not name its data set" in capsys.readouterr().err
    assert main(["export", "lenet5-mnist-1bit", "--to", "c", "--calibrate", "0"]) == 2
    assert "--calibrate must be at least 1" in capsys.readouterr().err
