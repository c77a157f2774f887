"""Curves over the epochs: the test accuracy of several runs, as in the paper's figure, and the errors of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from signwise.errors import SignwiseError
from signwise.figures import BINARY, FLOAT, MUTED, PALETTE, set_few_ticks_, styled, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TAIL_EPOCHS = 50  # of the accuracy curves
_TAIL_SHARE = 0.25  # of the error curves

# Name in metrics.jsonl and in records, label with 1 bit, label with 32 bits, colour, line style.
_ERRORS = (
    ("train_error", "training, relaxed $w_α$", "training", MUTED, ":"),
    ("relaxed_error", "test, relaxed $w_α$", "", FLOAT, "--"),
    ("error", "test, sign(φ)", "test", BINARY, "-"),
)


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
        axes[index, 0].legend(loc="best")
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


@styled
def error_curves_figure(curves: Mapping[str, Sequence[float | None]], title: str = "") -> Figure:
    """Draw the test errors of sign(φ) and of the relaxed weights, and the training error, of one run.

    The first panel shows the whole training on a logarithmic scale, the second its last quarter on a linear one.

    Args:
        curves: one number per epoch for ``error`` and, where known, ``relaxed_error`` and ``train_error``.
        title: the figure's title.

    Raises:
        SignwiseError: no epoch has been evaluated yet.
    """
    epochs = len(curves.get("error", ()))
    if epochs == 0:
        raise SignwiseError("the error curves need at least one finished epoch")
    figure, axes = subplots(1, 2, width=8, height=3.2)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    whole, tail = axes[0]
    first = epochs - max(round(epochs * _TAIL_SHARE), min(epochs, 2))
    is_binary = any(value is not None for value in curves.get("relaxed_error", ()))
    for name, binary_label, full_label, colour, line in _ERRORS:
        values = curves.get(name, ())
        if not any(value is not None for value in values):
            continue
        style: dict[str, Any] = {"color": colour, "linestyle": line, "marker": "." if epochs == 1 else None}
        style["label"] = binary_label if is_binary else full_label
        # An epoch without a number has no point, and the line goes on to the next.
        points = [(epoch, value) for epoch, value in enumerate(values, 1) if value is not None]
        whole.plot(*zip(*points, strict=True), **style)
        if name != "train_error":
            tail.plot(*zip(*[point for point in points if point[0] > first], strict=True), **style)
    _set_logarithmic_percent_(whole)
    whole.set_title("whole training")
    tail.set_title("last epochs")
    whole.set_ylabel("error, %")
    figure.legend(*whole.get_legend_handles_labels(), loc="outside upper right", ncols=3)
    for place in axes[0]:
        place.set_xlabel("epoch")
        set_few_ticks_(place.xaxis, 6)
    return figure


@styled
def movement_figure(curves: Mapping[str, Sequence[float | None]], title: str = "") -> Figure:
    """Draw how far the latents of a run move: the signs that flip in each epoch, and the relative step.

    Args:
        curves: one number per epoch for ``flipped_signs``, a fraction, and ``relative_step``.
        title: the figure's title.

    Raises:
        SignwiseError: no epoch recorded them.
    """
    figure, axes = subplots(1, 2, width=8, height=3.2)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    panels = (("flipped_signs", 100, "signs flipped per epoch, %"), ("relative_step", 1, "relative step  η‖∇φ‖ / ‖φ‖"))
    for place, (name, factor, label) in zip(axes[0], panels, strict=True):
        # A logarithmic scale has no zero: an epoch without a flip leaves a gap.
        points = [(epoch, factor * value) for epoch, value in enumerate(curves.get(name, ()), 1) if value]
        if not points:
            raise SignwiseError("the run did not record how far its latents move")
        place.plot(*zip(*points, strict=True), color=PALETTE[0], marker="." if len(points) <= 20 else None)
        place.set_yscale("log")
        place.set_title(label)
        place.set_xlabel("epoch")
        set_few_ticks_(place.xaxis, 6)
    return figure


def _set_logarithmic_percent_(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    # Below 0.01 %, one image in ten thousand, a logarithmic scale shows only noise.
    axes.set_yscale("log", nonpositive="clip")
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 0.01), min(high, 110))
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
