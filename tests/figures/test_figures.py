"""The common style: figures are written atomically, with the same bytes every time, and without a display."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from signwise.errors import SignwiseError
from signwise.figures import BINARY, save, subplots


def _drawn() -> Figure:
    figure, axes = subplots(1, 2, width=5, height=2)
    axes[0, 0].plot([0, 1, 2], [3, 1, 2], color=BINARY, label="binary")
    axes[0, 0].legend()
    axes[0, 1].set_title("(b)")
    return figure


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_figure_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"new/first{suffix}", tmp_path / f"second{suffix}"
    save(_drawn(), first)
    save(_drawn(), second)
    assert first.read_bytes() == second.read_bytes()
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SignwiseError, match=r"\.png or \.svg, got 'figure\.jpg'"):
        save(_drawn(), tmp_path / "figure.jpg")


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(SignwiseError, match="cannot write"):
        save(_drawn(), tmp_path / "taken" / "figure.png")


def test_the_style_is_imported_without_matplotlib() -> None:
    code = "import sys; sys.modules['matplotlib'] = None; import signwise.figures; print(signwise.figures.BINARY)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("#")
