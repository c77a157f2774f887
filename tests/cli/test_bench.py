"""``signwise bench``: a shipped network beside numpy, and every mistake reported before anything is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from signwise.bench.isolated import ENGINES
from signwise.cli import main
from signwise.program.program import Program

FILE = "lenet5-mnist-1bit"


@pytest.mark.slow
def test_a_file_is_timed_beside_numpy_and_the_json_holds_every_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    chart, record = tmp_path / "chart.svg", tmp_path / "record.json"
    words = ["--engines", "numpy", "--batch", "1", "2", "--threads", "1", "--seconds", "0.1"]
    assert main(["bench", FILE, *words, "--chart", str(chart), "--json", str(record)]) == 0
    printed = capsys.readouterr().out
    assert "signwise" in printed and "numpy fallback" in printed and "batch 2, 1 thread" in printed
    written = json.loads(record.read_text())
    assert written["file"] == FILE and "processor" in written["hardware"]
    float32 = [row for row in written["rows"] if row["precision"] == "float32"]
    assert [row["engine"] for row in float32] == ["signwise", "numpy"]
    assert all(row["difference"] < 1e-4 and len(row["times"]) == 2 for row in float32)
    assert chart.read_text().startswith("<?xml")


def test_engines_that_are_not_installed_are_listed_with_their_install_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ENGINES:
        if not ENGINES[name].ours:
            monkeypatch.setattr(type(ENGINES[name]), "missing", lambda engine: list(engine.requires))
    words = ["--batch", "1", "--threads", "1", "--seconds", "0.1", "--activations", "float32"]
    assert main(["bench", FILE, *words]) == 0
    captured = capsys.readouterr()
    assert "ONNX Runtime is left out; it needs onnxruntime, onnx: " in captured.err
    assert "PyTorch is left out; it needs torch: " in captured.err and "pip install torch\n" in captured.err
    # Numpy joins when there is nothing else to compare with.
    assert "numpy fallback" in captured.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--batch", "0"], "--batch must be positive, got 0"),
        (["--threads", "-1"], "--threads must be positive, got -1"),
        (["--seconds", "0"], "--seconds must be positive, got 0.0"),
        (["--engines", "openvin"], "there is no engine 'openvin': did you mean openvino?"),
        (["--chart", "net.jpg"], "--chart must end in .png or .svg, got 'net.jpg'"),
        (["--chart", "nowhere/net.png"], "cannot write nowhere/net.png: there is no folder nowhere"),
        (["--json", "nowhere/net.json"], "cannot write nowhere/net.json: there is no folder nowhere"),
        ([FILE, "--chart", "net.png"], "--chart draws the engines of one file, got 2 files"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_measured(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", FILE, *words]) == 2
    assert sentence in capsys.readouterr().err


def test_several_files_are_compared_with_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Program.load(FILE).save(tmp_path / "copy.sw")
    record = tmp_path / "record.json"
    words = ["--batch", "1", "--threads", "1", "--seconds", "0.1", "--activations", "float32", "--json", str(record)]
    assert main(["bench", FILE, str(tmp_path / "copy.sw"), *words]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["best", "file", FILE, "copy.sw"]
    assert [entry["file"] for entry in json.loads(record.read_text())["files"]] == [FILE, "copy.sw"]


def test_a_run_is_to_be_compiled_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    for target in (tmp_path, tmp_path / "best.safetensors"):
        for command in ("bench", "inspect"):
            assert main([command, str(target)]) == 2
            assert f"compile {tmp_path} writes one" in capsys.readouterr().err


def test_a_missing_file_is_reported_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "absent.sw"]) == 2
    assert "absent.sw" in capsys.readouterr().err
