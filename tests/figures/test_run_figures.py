"""The figures of runs: the panels that the paper's have, and what they are drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signwise.errors import SignwiseError
from signwise.figures.accuracy import AccuracyCurve, accuracy_figure
from signwise.figures.bits import BitsPair, bits_figure
from signwise.figures.errors import errors_figure
from signwise.figures.state import resampled, state_figure


def _state(step, extent, alpha=0.5, layer="conv2"):
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
def test_resampling_a_histogram_keeps_every_weight(low, width, counts, bins):
    edges = np.linspace(-6, 6, bins + 1)
    shares = resampled({"low": low, "high": low + width, "counts": counts}, edges)
    assert shares.shape == (bins,) and shares.min() >= 0 and shares.sum() == pytest.approx(1)


def test_resampling_onto_the_same_bins_is_the_share_of_each():
    shares = resampled({"low": -1.0, "high": 1.0, "counts": [1, 0, 2, 5]}, np.linspace(-1, 1, 5))
    np.testing.assert_allclose(shares, [1 / 8, 0, 2 / 8, 5 / 8], atol=1e-12)


def test_weights_that_are_all_equal_lie_in_one_bin():
    shares = resampled({"low": 0.35, "high": 0.35, "counts": [9, 0]}, np.linspace(0, 1, 11))
    assert shares.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]


def test_the_state_figure_has_the_papers_six_panels():
    figure = state_figure([_state(step, 0.5) for step in range(0, 400, 100)], "a layer")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title[:3] for title in titles] == ["(a)", "(b)", "(c)", "(d)", "(e)", "(f)"]
    assert all(axes.get_xlim() == (0, 300) for axes in figure.axes)
    lines = {line.get_label(): list(line.get_ydata()) for line in figure.axes[3].get_lines()}
    assert lines["max"] == [0.5] * 4 and lines["mean"] == [0.0] * 4 and lines["min"] == [-0.5] * 4
    assert list(figure.axes[4].get_lines()[0].get_ydata()) == [0.5] * 4


def test_latent_weights_that_shrink_a_lot_get_a_scale_that_shows_both_ends():
    steady = state_figure([_state(step, 0.5) for step in (0, 1, 2)])
    shrunk = state_figure([_state(0, 0.5), _state(1, 0.01), _state(2, 0.01)])
    assert steady.axes[0].get_yscale() == "linear" and shrunk.axes[0].get_yscale() == "asinh"
    assert shrunk.axes[1].get_yscale() == "linear"
    assert sorted(shrunk.axes[0].get_yticks()) == pytest.approx([-0.5, -0.01, 0, 0.01, 0.5])


def test_one_row_or_two_layers_make_no_history():
    for states in ([], [_state(0, 1)], [_state(0, 1), _state(1, 1, layer="conv1")]):
        with pytest.raises(SignwiseError, match="two or more rows of one layer"):
            state_figure(states)


def test_error_curves_of_a_float_run_have_no_relaxed_line():
    binary = errors_figure({"error": [90.0, 2.0], "relaxed_error": [2.0, 2.0], "train_error": [3.0, 1.0]})
    full = errors_figure({"error": [3.0, 2.0], "relaxed_error": [None, None], "train_error": [3.0, 1.0]})
    assert [len(axes.get_lines()) for axes in binary.axes] == [3, 2]
    assert [len(axes.get_lines()) for axes in full.axes] == [2, 1]
    with pytest.raises(SignwiseError, match="at least one finished epoch"):
        errors_figure({"error": []})


def test_the_last_panel_shows_the_last_50_epochs_as_accuracy():
    curve = AccuracyCurve(group="a", label="1 bit", errors=[float(epoch % 7) for epoch in range(200)])
    whole, tail = accuracy_figure([curve]).axes
    assert len(whole.get_lines()[0].get_xdata()) == 200
    line = tail.get_lines()[0]
    assert list(line.get_xdata()) == list(range(151, 201)) and line.get_ydata()[0] == 100 - 150 % 7
    short = AccuracyCurve(group="b", label="32 bit", errors=[5.0] * 10, is_full_precision=True)
    figure = accuracy_figure([curve, short])
    assert len(figure.axes) == 4 and figure.axes[3].get_title(loc="left") == "(d)  last 5 epochs"
    with pytest.raises(SignwiseError, match="at least one recorded run"):
        accuracy_figure([])


def test_a_pair_with_one_error_missing_is_drawn_without_the_other():
    paper = BitsPair(label="LeNet5", full=0.6, binary=0.5, is_ours=False)
    ours = BitsPair(label="LeNet5", full=None, binary=0.55, is_ours=True)
    (axes,) = bits_figure([paper, ours]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["LeNet5, paper", "LeNet5, ours"]
    assert len(axes.get_lines()) == 1
    with pytest.raises(SignwiseError, match="at least one experiment"):
        bits_figure([])
