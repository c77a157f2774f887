"""Bytes, time and error side by side: what a network costs and what it is worth, one bar a form of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from signwise.figures.style import BINARY, FLOAT, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One form of a network in one panel.

    Args:
        label: what it is.
        value: the length of its bar.
        text: the value as a reader wants it.
        binary: whether its weights are binary.
    """

    label: str
    value: float
    text: str
    binary: bool


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One quantity.

    Args:
        title: what is shown, with its unit.
        bars: from top to bottom.
        note: a line below, such as what was measured.
    """

    title: str
    bars: Sequence[Bar]
    note: str = ""


def draw(panels: Sequence[Panel], *, width: float = 9.0) -> Figure:
    """Horizontal bars from zero, one panel a quantity, each value written at its bar."""
    rows = max(len(panel.bars) for panel in panels)
    figure, axes = subplots(1, len(panels), width=width, height=0.9 + 0.42 * rows)
    for axis, panel in zip(axes[0], panels, strict=True):
        _draw_panel(axis, panel, rows)
    return figure


def _draw_panel(axis: Any, panel: Panel, rows: int) -> None:
    positions = range(len(panel.bars))
    largest = max(bar.value for bar in panel.bars)
    for position, bar in zip(positions, panel.bars, strict=True):
        axis.barh(position, bar.value, height=0.62, color=BINARY if bar.binary else FLOAT)
        axis.annotate(bar.text, (bar.value, position), (4, 0), textcoords="offset points", va="center")
    axis.set_title(panel.title, loc="left", fontsize=10)
    axis.set_yticks(list(positions), [bar.label for bar in panel.bars])
    axis.set_ylim(rows - 0.5, -0.5)  # from the top, and bars of one thickness in all panels
    # The values stand at the bars: room for them at the right, and no axis that repeats them.
    axis.set_xlim(0, largest * 1.45)
    axis.set_xticks([])
    axis.grid(False)
    for side in ("bottom", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", length=0)
    if panel.note:
        axis.set_xlabel(panel.note, fontsize=8, loc="left")
