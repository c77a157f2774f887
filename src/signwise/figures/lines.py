"""Panels of lines over the epochs: everything that runs record, one run or several beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from signwise.errors import SignwiseError
from signwise.figures import PALETTE, set_few_ticks_, styled, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# With the colours, so that lines differ in grey print too.
_STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True, kw_only=True)
class LinePanel:
    """One panel.

    Args:
        title: what the lines show, with the unit.
        lines: by label, one number per epoch from the first on; ``None`` leaves a gap.
        logarithmic: the scale; zeros then leave gaps, too.
    """

    title: str
    lines: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    logarithmic: bool = False

    def points(self) -> dict[str, list[tuple[int, float]]]:
        """The points of each line that has any."""
        found = {
            label: [
                (epoch, value)
                for epoch, value in enumerate(values, start=1)
                if value is not None and (value > 0 or not self.logarithmic)
            ]
            for label, values in self.lines.items()
        }
        return {label: points for label, points in found.items() if points}


@styled
def lines_figure(panels: Sequence[LinePanel], title: str = "") -> Figure:
    """Draw the panels that have points, two in a row; a line has the same colour and dashes in all of them.

    Raises:
        SignwiseError: no panel has any point.
    """
    drawn = [panel for panel in panels if panel.points()]
    if not drawn:
        raise SignwiseError("there is nothing to draw: no epoch has been recorded")
    labels = list(dict.fromkeys(label for panel in drawn for label in panel.points()))
    rows = (len(drawn) + 1) // 2
    figure, axes = subplots(rows, 2, width=8, height=2.7 * rows + 0.4)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    handles = {}
    for place, panel in zip(axes.flat, drawn, strict=False):
        for label, points in panel.points().items():
            number = labels.index(label)
            (handles[label],) = place.plot(
                *zip(*points, strict=True),
                color=PALETTE[number % len(PALETTE)],
                linestyle=_STYLES[number % len(_STYLES)],
                marker="." if len(points) <= 20 else None,
            )
        if panel.logarithmic:
            _set_logarithmic_(place)
        last = max(epoch for points in panel.points().values() for epoch, _ in points)
        place.set_xlim(0.5 if last == 1 else 1, max(last, 1.5))
        set_few_ticks_(place.xaxis, 6)
        place.set_title(panel.title)
        place.set_xlabel("epoch")
    for place in axes.flat[len(drawn) :]:
        place.set_visible(False)
    if len(labels) > 1:
        # Below the panels, one label per line: long names of runs fit.
        figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=1)
    return figure


def _set_logarithmic_(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def percent(values: Sequence[float | None]) -> list[float | None]:
    """Fractions in percent; ``None`` stays.

    Example:
        >>> percent([0.5, None])
        [50.0, None]
    """
    return [None if value is None else 100 * value for value in values]
