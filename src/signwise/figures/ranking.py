"""Methods against each other: the mean error of each with its spread over the seeds, in one or several settings."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from signwise.errors import SignwiseError
from signwise.figures import FLOAT, PALETTE, styled, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = ("o", "D", "s", "^")


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One method.

    Args:
        label: its name.
        errors: the errors in percent of its seeds, by setting; an empty list where it was not measured.
        is_full_precision: draw it in the colour of the baseline.
    """

    label: str
    errors: Mapping[str, Sequence[float]]
    is_full_precision: bool = False


@styled
def ranking_figure(rows: Sequence[Ranked], title: str = "") -> Figure:
    """Draw one row per method: the mean of its seeds, with a bar of one standard deviation, per setting.

    Raises:
        SignwiseError: there is nothing to draw.
    """
    settings = list(dict.fromkeys(name for row in rows for name, errors in row.errors.items() if errors))
    if not settings:
        raise SignwiseError("the ranking needs at least one measured method")
    figure, axes = subplots(1, 1, width=8, height=1.0 + 0.27 * len(rows))
    place = axes[0, 0]
    colours = (PALETTE[0], *PALETTE[2:])
    for number, name in enumerate(settings):
        colour, marker = colours[number % len(colours)], _MARKERS[number % len(_MARKERS)]
        # Settings of one method stand a little above and below each other, so that bars do not cover each other.
        offset = 0.26 * (number - (len(settings) - 1) / 2)
        for position, row in enumerate(rows):
            errors = row.errors.get(name, ())
            if errors:
                spread = statistics.stdev(errors) if len(errors) > 1 else 0.0
                style = {"fmt": marker, "markersize": 5, "capsize": 2, "elinewidth": 1}
                place.errorbar(
                    statistics.fmean(errors),
                    position + offset,
                    xerr=spread,
                    color=FLOAT if row.is_full_precision else colour,
                    **style,
                )
        place.errorbar([], [], fmt=marker, color=colour, markersize=5, label=name)
    place.set_yticks(range(len(rows)), [row.label for row in rows])
    place.set_ylim(len(rows) - 0.5, -0.5)
    place.set_xscale("log")
    place.xaxis.set_major_formatter(_plain)
    place.xaxis.set_minor_formatter(_plain)
    place.set_xlabel("test error after the last step, %")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    figure.legend(*place.get_legend_handles_labels(), loc="outside upper right", ncols=len(settings))
    return figure


def _plain(value: float, position: int) -> str:
    # Labels at 1, 2 and 5 of each decade: more of them would run into each other.
    return f"{value:g}" if f"{value:e}"[0] in "125" else ""
