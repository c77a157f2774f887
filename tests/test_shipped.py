"""Programs that come with the package are found by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import signwise.shipped
from signwise.cli import main


def test_an_unknown_name_suggests_the_nearest_shipped_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "lenet5-mnist-1bit.sw").write_bytes(b"")
    monkeypatch.setattr("signwise.shipped._FOLDER", tmp_path)
    for command in ("eval", "inspect", "bench"):
        assert main([command, "lenet5-minst-1bit"]) == 2
        shown = capsys.readouterr()
        assert shown.out == "" and shown.err.count("\n") == 1
        assert "did you mean lenet5-mnist-1bit?" in shown.err
    assert signwise.shipped.resolve("lenet5-mnist-1bit") == tmp_path / "lenet5-mnist-1bit.sw"


def test_a_file_takes_precedence_over_a_shipped_program_of_the_same_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lenet5-mnist-1bit").write_bytes(b"")
    assert signwise.shipped.resolve("lenet5-mnist-1bit") == Path("lenet5-mnist-1bit")
