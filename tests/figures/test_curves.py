"""Curves: the whole training and its last epochs; a float run has no relaxed line, and an empty run no figure."""

from __future__ import annotations

import numpy as np
import pytest

from signwise.errors import SignwiseError
from signwise.figures.curves import AccuracyCurve, accuracy_curves_figure, error_curves_figure, movement_figure


def test_the_last_panel_shows_the_last_50_epochs_as_accuracy() -> None:
    curve = AccuracyCurve(group="a", label="1 bit", errors=[float(epoch % 7) for epoch in range(200)])
    whole, tail = accuracy_curves_figure([curve]).axes
    assert len(np.asarray(whole.get_lines()[0].get_xdata())) == 200
    line = tail.get_lines()[0]
    assert np.asarray(line.get_xdata()).tolist() == list(range(151, 201))
    assert np.asarray(line.get_ydata())[0] == 100 - 150 % 7
    short = AccuracyCurve(group="b", label="32 bit", errors=[5.0] * 10, is_full_precision=True)
    figure = accuracy_curves_figure([curve, short])
    assert len(figure.axes) == 4 and figure.axes[3].get_title(loc="left") == "(d)  last 5 epochs"
    with pytest.raises(SignwiseError, match="at least one recorded run"):
        accuracy_curves_figure([])


def test_error_curves_of_a_float_run_have_no_relaxed_line() -> None:
    binary = error_curves_figure({"error": [90.0, 2.0], "relaxed_error": [2.0, 2.0], "train_error": [3.0, 1.0]})
    full = error_curves_figure({"error": [3.0, 2.0], "relaxed_error": [None, None], "train_error": [3.0, 1.0]})
    assert [len(axes.get_lines()) for axes in binary.axes] == [3, 2]
    assert [len(axes.get_lines()) for axes in full.axes] == [2, 1]
    with pytest.raises(SignwiseError, match="at least one finished epoch"):
        error_curves_figure({"error": []})


def test_movement_is_drawn_on_logarithmic_scales_without_the_epochs_at_zero() -> None:
    figure = movement_figure({"flipped_signs": [0.05, 0.0, 0.001], "relative_step": [1e-3, 1e-4, 1e-5]})
    flips, steps = figure.axes
    assert flips.get_yscale() == steps.get_yscale() == "log"
    assert np.asarray(flips.lines[0].get_xdata()).tolist() == [1, 3]
    assert np.asarray(flips.lines[0].get_ydata()).tolist() == pytest.approx([5.0, 0.1])
    with pytest.raises(SignwiseError, match="did not record"):
        movement_figure({"flipped_signs": [None], "relative_step": [None]})


def test_a_single_epoch_has_one_tick_at_a_whole_number() -> None:
    for axes in error_curves_figure({"error": [90.0]}).axes:
        low, high = axes.get_xlim()
        assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [1.0]
