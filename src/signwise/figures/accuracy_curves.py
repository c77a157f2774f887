"""Test accuracy during training, over all epochs and over the last ones, as in the paper's figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from signwise.errors import SignwiseError
from signwise.figures.style import PALETTE, set_few_ticks_, styled, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TAIL_EPOCHS = 50


@dataclass(frozen=True, kw_only=True)
class AccuracyCurve:
    """One line of the figure.

    Args:
        group: the experiment; each has its own row of panels.
        label: what distinguishes the line within its group.
        errors: test error in percent, one number per epoch.
        is_full_precision: draws the line dashed, as the baseline.
    """

    group: str
    label: str
    errors: Sequence[float]
    is_full_precision: bool = False


@styled
def accuracy_curves_figure(curves: Sequence[AccuracyCurve]) -> Figure:
    """Draw two panels per group: the whole training, and its last 50 epochs (the last half of a short run).

    Raises:
        SignwiseError: there is nothing to draw.
    """
    groups = list(dict.fromkeys(curve.group for curve in curves))
    if not groups:
        raise SignwiseError("the accuracy figure needs at least one recorded run")
    figure, axes = subplots(len(groups), 2, width=8, height=3.1 * len(groups))
    for index, group in enumerate(groups):
        _draw_group(axes[index], [curve for curve in curves if curve.group == group], index)
        axes[index, 0].set_title(f"({chr(97 + 2 * index)})  {group}")
        axes[index, 0].set_ylabel("test accuracy, %")
        axes[index, 0].legend(loc="lower right")
    return figure


def _draw_group(places: Any, curves: Sequence[AccuracyCurve], index: int) -> None:
    epochs = max(len(curve.errors) for curve in curves)
    tail = _TAIL_EPOCHS if epochs >= 2 * _TAIL_EPOCHS else max(epochs // 2, 1)
    for colour, curve in zip(_colours(curves), curves, strict=True):
        accuracies = [100 - error for error in curve.errors]
        style: dict[str, Any] = {"color": colour, "linestyle": "--" if curve.is_full_precision else "-"}
        style["marker"] = "." if epochs <= 20 else None
        numbers = range(1, len(accuracies) + 1)
        places[0].plot(numbers, accuracies, label=curve.label, **style)
        places[1].plot(numbers[epochs - tail :], accuracies[epochs - tail :], label=curve.label, **style)
    # The first epochs of a progressively binarized network are near chance level: show the whole range.
    places[0].set_ylim(0, 100)
    places[1].set_title(f"({chr(98 + 2 * index)})  last {tail} epochs")
    for place in places:
        place.set_xlabel("epoch")
        set_few_ticks_(place.xaxis, 6)


def _colours(curves: Sequence[AccuracyCurve]) -> list[str]:
    """Binary lines take the palette in order; its second colour is reserved for full precision."""
    binary = iter([PALETTE[0], *PALETTE[2:]] * len(curves))
    return [PALETTE[1] if curve.is_full_precision else next(binary) for curve in curves]
