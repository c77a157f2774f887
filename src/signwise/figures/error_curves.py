"""The errors of one run per epoch: test errors of sign(φ) and of the relaxed weights, and the training error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from signwise.errors import SignwiseError
from signwise.figures.style import BINARY, FLOAT, MUTED, set_few_ticks_, styled, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Name in metrics.jsonl and in records, label with 1 bit, label with 32 bits, colour, line style.
_CURVES = (
    ("train_error", "training, relaxed $w_α$", "training", MUTED, ":"),
    ("relaxed_error", "test, relaxed $w_α$", "", FLOAT, "--"),
    ("error", "test, sign(φ)", "test", BINARY, "-"),
)
_TAIL = 0.25  # share of the epochs in the second panel


@styled
def error_curves_figure(curves: Mapping[str, Sequence[float | None]], title: str = "") -> Figure:
    """Draw the whole training on a logarithmic scale, and its last quarter on a linear one.

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
    first = epochs - max(round(epochs * _TAIL), min(epochs, 2))
    is_binary = any(value is not None for value in curves.get("relaxed_error", ()))
    for name, binary_label, full_label, colour, line in _CURVES:
        values = curves.get(name, ())
        if not any(value is not None for value in values):
            continue
        style: dict[str, Any] = {"color": colour, "linestyle": line, "marker": "." if epochs == 1 else None}
        style["label"] = binary_label if is_binary else full_label
        whole.plot(range(1, epochs + 1), values, **style)
        if name != "train_error":
            tail.plot(range(first + 1, epochs + 1), values[first:], **style)
    _set_logarithmic_percent_(whole)
    whole.set_title("whole training")
    tail.set_title("last epochs")
    whole.set_ylabel("error, %")
    figure.legend(*whole.get_legend_handles_labels(), loc="outside upper right", ncols=3)
    for place in axes[0]:
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
