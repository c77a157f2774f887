from __future__ import annotations

import json
from pathlib import Path

import pytest

from signwise.bench import ENGINES
from signwise.bench.onnxruntime_engine import OnnxRuntime
from signwise.cli import main
from signwise.program.program import Program


@pytest.fixture
def file(program: Program, tmp_path: Path) -> str:
    path = tmp_path / "net.sw"
    program.save(path)
    return str(path)


def test_a_file_is_timed_beside_numpy_and_everything_is_written_down(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    chart, record = tmp_path / "chart.svg", tmp_path / "record.json"
    words = ["--engines", "numpy", "--batch", "1", "2", "--threads", "1", "--seconds", "0.1"]
    assert main(["bench", file, *words, "--chart", str(chart), "--json", str(record)]) == 0
    printed = capsys.readouterr().out
    assert "signwise" in printed and "numpy fallback" in printed and "batch 2, 1 thread" in printed
    written = json.loads(record.read_text())
    assert written["file"] == "net.sw" and "processor" in written["hardware"]
    float32 = [row for row in written["rows"] if row["precision"] == "float32"]
    assert [row["engine"] for row in float32] == ["signwise", "numpy"]
    assert all(row["difference"] < 1e-4 and len(row["times"]) == 2 for row in float32)
    assert chart.read_text().startswith("<?xml")


def test_engines_that_are_not_installed_are_named_with_the_way_to_them(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ENGINES:
        if not ENGINES[name].ours:
            monkeypatch.setattr(type(ENGINES[name]), "missing", lambda engine: list(engine.requires))
    words = ["--batch", "1", "--threads", "1", "--seconds", "0.1", "--activations", "float32"]
    assert main(["bench", file, *words]) == 0
    captured = capsys.readouterr()
    assert "ONNX Runtime is left out, it needs onnxruntime, onnx: pip install 'signwise[bench]'" in captured.err
    assert "PyTorch is left out, it needs torch: pip install 'signwise[train]'" in captured.err
    # With nothing else to compare with, numpy is.
    assert "numpy fallback" in captured.out


def test_an_engine_that_exists_nowhere_is_missing() -> None:
    class Absent(OnnxRuntime):
        requires = ("numpy", "an_engine_that_exists_nowhere")

    assert Absent().missing() == ["an_engine_that_exists_nowhere"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--batch", "0"], "--batch must be positive, got 0"),
        (["--threads", "-1"], "--threads must be positive, got -1"),
        (["--seconds", "0"], "--seconds must be positive, got 0.0"),
        (["--engines", "openvin"], "there is no engine 'openvin': did you mean openvino?"),
        (["--chart", "net.jpg"], "--chart must end in .png or .svg, got 'net.jpg'"),
    ],
)
def test_mistakes_are_told_before_anything_is_measured(
    words: list[str], sentence: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", file, *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "absent.sw"]) == 2
    assert "absent.sw" in capsys.readouterr().err
