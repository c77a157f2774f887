"""Several quantities side by side, such as bytes, time and error: one panel per quantity, one bar per network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from signwise.figures.style import BINARY, FLOAT, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar.

    Args:
        label: what it shows.
        value: its length.
        text: the value as the reader sees it.
        binary: whether the network has binary weights, which sets the colour.
    """

    label: str
    value: float
    text: str
    binary: bool


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One quantity.

    Args:
        title: the quantity, with its unit.
        bars: from top to bottom.
    """

    title: str
    bars: Sequence[Bar]


def bars_figure(panels: Sequence[Panel], *, width: float = 9.0) -> Figure:
    """Draw horizontal bars from zero, with each value written beside its bar."""
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
    axis.set_ylim(rows - 0.5, -0.5)  # top to bottom, and the same thickness in all panels
    # Each bar carries its value: leave room for it at the right, and draw no axis.
    axis.set_xlim(0, largest * 1.45)
    axis.set_xticks([])
    axis.grid(False)
    for side in ("bottom", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", length=0)
