"""The state of a layer: histograms that lose no weight, and the paper's six panels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signwise.errors import SignwiseError
from signwise.figures.layer_state import layer_state_figure, resampled


def _state(step: int, extent: float, alpha: float = 0.5, layer: str = "conv2") -> dict[str, Any]:
    histogram = {"low": -extent, "high": extent, "counts": [1, 5, 5, 1]}
    return {
        "layer": layer,
        "step": step,
        "alpha": alpha,
        "zeta": 1.0,
        "latent": histogram,
        "relaxed": histogram | {"min": -extent, "mean": 0.0, "max": extent},
        "signs": {"negative": 5, "positive": 7},
    }


@given(
    low=st.floats(-2, 2),
    width=st.floats(0.001, 3),
    counts=st.lists(st.integers(0, 1000), min_size=1, max_size=70).filter(sum),
    bins=st.integers(1, 200),
)
def test_resampling_a_histogram_keeps_every_weight(low: float, width: float, counts: list[int], bins: int) -> None:
    edges = np.linspace(-6, 6, bins + 1)
    shares = resampled({"low": low, "high": low + width, "counts": counts}, edges)
    assert shares.shape == (bins,) and shares.min() >= 0 and shares.sum() == pytest.approx(1)


def test_resampling_onto_the_same_bins_is_the_share_of_each() -> None:
    shares = resampled({"low": -1.0, "high": 1.0, "counts": [1, 0, 2, 5]}, np.linspace(-1, 1, 5))
    np.testing.assert_allclose(shares, [1 / 8, 0, 2 / 8, 5 / 8], atol=1e-12)


def test_weights_that_are_all_equal_lie_in_one_bin() -> None:
    shares = resampled({"low": 0.35, "high": 0.35, "counts": [9, 0]}, np.linspace(0, 1, 11))
    assert shares.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]


def test_the_state_figure_has_the_papers_six_panels() -> None:
    figure = layer_state_figure([_state(step, 0.5) for step in range(0, 400, 100)], "a layer")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title[:3] for title in titles] == ["(a)", "(b)", "(c)", "(d)", "(e)", "(f)"]
    assert all(axes.get_xlim() == (0, 300) for axes in figure.axes)
    lines = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in figure.axes[3].get_lines()}
    assert lines["max"] == [0.5] * 4 and lines["mean"] == [0.0] * 4 and lines["min"] == [-0.5] * 4
    assert np.asarray(figure.axes[4].get_lines()[0].get_ydata()).tolist() == [0.5] * 4


def test_latent_weights_that_shrink_a_lot_get_a_scale_that_shows_both_ends() -> None:
    steady = layer_state_figure([_state(step, 0.5) for step in (0, 1, 2)])
    shrunk = layer_state_figure([_state(0, 0.5), _state(1, 0.01), _state(2, 0.01)])
    assert steady.axes[0].get_yscale() == "linear" and shrunk.axes[0].get_yscale() == "asinh"
    assert shrunk.axes[1].get_yscale() == "linear"
    assert sorted(shrunk.axes[0].get_yticks()) == pytest.approx([-0.5, -0.01, 0, 0.01, 0.5])


def test_one_row_or_two_layers_make_no_history() -> None:
    for states in ([], [_state(0, 1)], [_state(0, 1), _state(1, 1, layer="conv1")]):
        with pytest.raises(SignwiseError, match="two or more rows of one layer"):
            layer_state_figure(states)
