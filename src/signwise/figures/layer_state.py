"""The state of one layer during training, as in the paper's figure.

(a) latent weights φ and (b) relaxed weights w_α as histograms over time, (c) deployed signs, (d) minimum, mean and
maximum of w_α, (e) α and (f) ζ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.figures import BINARY, FLOAT, MUTED, QUIET, set_few_ticks_, styled, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 160
State = Mapping[str, Any]
Corners = Mapping[str, Sequence[tuple[float, float]]]


@styled
def layer_state_figure(states: Sequence[State], title: str = "", *, schedules: Corners | None = None) -> Figure:
    """Draw the six panels.

    Args:
        states: rows of one layer from a run's ``state.jsonl`` or from a record, in the order of their steps.
        title: the figure's title.
        schedules: the corners of ``alpha`` and ``zeta`` as (step, value); without them, the lines join the rows.

    Raises:
        SignwiseError: there are too few rows, or rows of several layers.
    """
    layers = {str(state["layer"]) for state in states}
    if len(layers) != 1 or len(states) < 2:
        raise SignwiseError(f"the state figure needs two or more rows of one layer, got {len(states)} of {len(layers)}")
    figure, axes = subplots(3, 2, width=8, height=8)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    _draw_histograms(axes[0, 0], states, "latent", "(a)  latent weights φ")
    _draw_histograms(axes[0, 1], states, "relaxed", "(b)  relaxed weights $w_α$")
    _draw_signs(axes[1, 0], states)
    _draw_spread(axes[1, 1], states)
    steps = [state["step"] for state in states]
    for place, name, symbol in ((axes[2, 0], "alpha", "(e)  α"), (axes[2, 1], "zeta", "(f)  ζ")):
        points = (schedules or {}).get(name) or [(state["step"], state[name]) for state in states]
        place.plot(*zip(*points, strict=True), color=BINARY)
        place.set_title(symbol)
        place.set_ylim(bottom=0)
        place.set_xlabel("training step")
    for place in axes.flat:
        place.set_xlim(steps[0], steps[-1])
        set_few_ticks_(place.xaxis, 4)  # six digits need room
        place.xaxis.set_major_formatter(_thousands())
    return figure


def _thousands() -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, position: f"{value:,.0f}")


def resampled(histogram: Mapping[str, Any], edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Resample a histogram to other bins, spreading each old bin evenly over its width.

    Args:
        histogram: ``low``, ``high`` and the ``counts`` of equal bins between them.
        edges: rising edges of the new bins; they must cover the old ones.

    Returns:
        The share of the weights in each new bin; the shares sum to 1.

    Example:
        >>> resampled({"low": 0.0, "high": 1.0, "counts": [1, 3]}, np.array([0.0, 0.5, 0.75, 1.0]))
        array([0.25 , 0.375, 0.375])
    """
    counts = np.asarray(histogram["counts"], dtype=np.float64)
    low, high = histogram["low"], histogram["high"]
    if high <= low:
        # All weights are equal and the old bins have no width: everything falls into one new bin.
        return np.where((edges[:-1] <= low) & (low < edges[1:]), 1.0, 0.0)
    cumulated = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
    old_edges = np.linspace(low, high, len(counts) + 1)
    shares: npt.NDArray[np.float64] = np.diff(np.interp(edges, old_edges, cumulated))
    return shares


def _draw_histograms(axes: Any, states: Sequence[State], name: str, title: str) -> None:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    extents = [max(-state[name]["low"], state[name]["high"], 1e-9) for state in states]
    furthest, usual = 1.02 * max(extents), float(np.median(extents))
    edges = np.linspace(-furthest, furthest, _BINS + 1)
    if name == "latent" and usual < furthest / 4:
        # Weight decay shrinks φ to a small part of its initial range: an asinh scale, linear near zero and
        # logarithmic beyond, shows both.
        width = usual / 2
        reach = np.arcsinh(furthest / width)
        edges = width * np.sinh(np.linspace(-reach, reach, _BINS + 1))
        axes.set_yscale("asinh", linear_width=width)
        axes.set_yticks([sign * _round_below(value) for sign in (-1, 1) for value in (furthest, usual)] + [0])
        axes.set_yticks([], minor=True)
        axes.yaxis.set_major_formatter("{x:g}")
    shares = np.stack([resampled(state[name], edges) for state in states], axis=1)  # (bins, states)
    # Normalize each step by its own peak: weights that gather at two points would make all other steps look empty.
    shares /= shares.max(axis=0, keepdims=True)
    steps = np.array([state["step"] for state in states], dtype=np.float64)
    middles = (steps[1:] + steps[:-1]) / 2
    colours = LinearSegmentedColormap.from_list("density", ["white", BINARY, "#00263b"])
    axes.pcolormesh(
        np.concatenate([steps[:1], middles, steps[-1:]]),
        edges,
        shares,
        cmap=colours,
        norm=PowerNorm(0.5, 0, 1),
        rasterized=True,
    )
    axes.grid(False)
    axes.set_title(title)
    axes.set_ylabel("value")


def _round_below(value: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that does not exceed the value."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * max(digit for digit in (1, 2, 5) if digit * power <= value * (1 + 1e-9)))


def _draw_signs(axes: Any, states: Sequence[State]) -> None:
    steps = [state["step"] for state in states]
    totals = [state["signs"]["negative"] + state["signs"]["positive"] for state in states]
    negative = [100 * state["signs"]["negative"] / total for state, total in zip(states, totals, strict=True)]
    axes.stackplot(steps, negative, [100 - share for share in negative], colors=[FLOAT, BINARY], alpha=0.85)
    axes.axhline(50, color="white", linewidth=0.8, linestyle=":")
    for height, sign in ((25, "−1"), (75, "+1")):
        axes.text(
            0.5, height / 100, sign, transform=axes.transAxes, ha="center", va="center", color="white", fontsize=12
        )
    axes.set_ylim(0, 100)
    axes.grid(False)
    axes.set_title("(c)  deployed weights sign(φ)")
    axes.set_ylabel("share, %")


def _draw_spread(axes: Any, states: Sequence[State]) -> None:
    steps = [state["step"] for state in states]
    for name, colour in (("max", BINARY), ("mean", MUTED), ("min", FLOAT)):
        axes.plot(steps, [state["relaxed"][name] for state in states], color=colour, label=name)
    for value in (-1, 1):
        axes.axhline(value, color=QUIET, linewidth=1.2, zorder=0)
    axes.set_title("(d)  minimum, mean and maximum of $w_α$")
    axes.set_ylabel("value")
    axes.legend(loc="best")
