"""One bit against thirty-two: the paper's errors and ours, one row per experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from signwise.errors import SignwiseError
from signwise.figures.style import BINARY, FLOAT, MUTED, styled, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class ErrorPair:
    """One line of the figure.

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
