"""The times of engines as bars: one panel per batch size and number of threads, one bar per engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from signwise.bench.measure import Comparison, Setting
from signwise.bench.report import milliseconds
from signwise.figures.style import BINARY, FLOAT, MUTED, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def engine_times_figure(comparison: Comparison, title: str) -> Figure:
    """Draw the best time of every engine, float32 above int8.

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
        _panel(axes[index % rows, index // rows], comparison, setting)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _panel(axis: Any, comparison: Comparison, setting: Setting) -> None:
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
