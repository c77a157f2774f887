"""Comparisons side by side: quantities of networks and times of engines as bars, errors with 1 and 32 bits as marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from signwise.bench.measure import Comparison, Setting
from signwise.bench.report import milliseconds
from signwise.errors import SignwiseError
from signwise.figures import BINARY, FLOAT, MUTED, styled, subplots

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


def number_panel(
    title: str, values: Sequence[float], *, binary: Sequence[bool], decimals: int, labels: Sequence[str] = ()
) -> Panel:
    """One quantity of several networks.

    Args:
        title: the quantity, with its unit.
        values: from top to bottom.
        binary: of each network, whether its weights are.
        decimals: of the numbers at the bars.
        labels: the networks; empty next to a panel that names them.
    """
    rows = zip(values, binary, labels or [""] * len(values), strict=True)
    return Panel(
        title=title,
        bars=[
            Bar(label=label, value=value, text=f"{value:,.{decimals}f}", binary=is_binary)
            for value, is_binary, label in rows
        ],
    )


def bars_figure(panels: Sequence[Panel], *, width: float = 9.0) -> Figure:
    """Draw one panel per quantity, such as bytes, time and error, with horizontal bars from zero and their values."""
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


def engine_times_figure(comparison: Comparison, title: str) -> Figure:
    """Draw the best time of every engine, float32 above int8, one panel per batch size and number of threads.

    Args:
        comparison: the measurements.
        title: the figure's title, such as the name of the file.
    """
    columns = len({setting.batch for setting in comparison.settings})
    rows = len(comparison.settings) // columns
    height = 0.7 + rows * (0.6 + 0.26 * len(comparison.rows))
    figure, axes = subplots(rows, columns, width=4.6 * columns, height=height)
    # Settings are ordered by batch size first: one column per batch size.
    for index, setting in enumerate(comparison.settings):
        _draw_setting(axes[index % rows, index // rows], comparison, setting)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _draw_setting(axis: Any, comparison: Comparison, setting: Setting) -> None:
    best = [row.timings[setting].best for row in comparison.rows]
    # Half a bar of space between the precisions.
    positions = [index + 0.5 * (row.precision == "int8") for index, row in enumerate(comparison.rows)]
    for position, row, seconds in zip(positions, comparison.rows, best, strict=True):
        other = FLOAT if row.precision == "float32" else MUTED
        axis.barh(position, seconds, height=0.68, color=BINARY if row.engine.ours else other)
        where = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        axis.annotate(milliseconds(seconds), (seconds, position), **where)
    axis.set_title(str(setting), loc="left", fontsize=10)
    axis.set_yticks(positions, [f"{row.engine.title} {row.precision}" for row in comparison.rows])
    axis.invert_yaxis()
    # Each bar carries its value: leave room for it at the right, and draw no axis.
    axis.set_xlim(0, max(best) * 1.3)
    axis.set_xticks([])
    axis.grid(False)
    axis.spines["bottom"].set_visible(False)
    axis.tick_params(axis="y", length=0)


@dataclass(frozen=True, kw_only=True)
class ErrorPair:
    """The errors of one experiment with 32 bits and with 1 bit.

    Args:
        label: the experiment.
        full: error with 32 bits in percent, or ``None`` if unknown.
        binary: error with 1 bit in percent, or ``None`` if unknown.
        is_ours: measured, not quoted from the paper.
    """

    label: str
    full: float | None
    binary: float | None
    is_ours: bool


@styled
def bit_widths_figure(pairs: Sequence[ErrorPair]) -> Figure:
    """Draw one row per experiment: hollow marks quote the paper, filled marks are measured.

    Raises:
        SignwiseError: there is nothing to draw.
    """
    if not pairs:
        raise SignwiseError("the comparison of bit widths needs at least one experiment")
    figure, axes = subplots(1, 1, width=8, height=0.8 + 0.34 * len(pairs))
    place = axes[0, 0]
    for row, pair in enumerate(pairs):
        known = [value for value in (pair.full, pair.binary) if value is not None]
        if len(known) == 2:
            place.plot(known, [row, row], color=MUTED, linewidth=1, zorder=1)
        for value, colour, marker in ((pair.full, FLOAT, "s"), (pair.binary, BINARY, "o")):
            if value is not None:
                face = colour if pair.is_ours else "white"
                place.scatter(
                    value, row, marker=marker, s=42, facecolor=face, edgecolor=colour, linewidth=1.4, zorder=2
                )
    place.set_yticks(range(len(pairs)), [f"{pair.label}, {'ours' if pair.is_ours else 'paper'}" for pair in pairs])
    place.set_ylim(len(pairs) - 0.5, -0.5)
    place.set_xscale("log")
    place.xaxis.set_major_formatter(_plain_numbers())
    place.xaxis.set_minor_formatter(_no_labels())
    place.set_xticks([value for value in (0.5, 1, 2, 5, 10, 20, 50) if _near(value, pairs)])
    place.set_xlabel("lowest test error during training, %")
    for colour, marker, label in ((FLOAT, "s", "32 bit"), (BINARY, "o", "1 bit")):
        place.scatter([], [], marker=marker, s=42, facecolor=colour, edgecolor=colour, label=label)
    figure.legend(loc="outside upper right", ncols=2)
    return figure


def _near(value: float, pairs: Sequence[ErrorPair]) -> bool:
    known = [error for pair in pairs for error in (pair.full, pair.binary) if error is not None]
    return bool(known) and 0.6 * min(known) <= value <= 1.6 * max(known)


def _plain_numbers() -> object:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, position: f"{value:g}")


def _no_labels() -> object:
    from matplotlib.ticker import NullFormatter

    return NullFormatter()
