"""Accuracy curves: the whole training and its last epochs."""

from __future__ import annotations

import numpy as np
import pytest

from signwise.errors import SignwiseError
from signwise.figures.accuracy_curves import AccuracyCurve, accuracy_curves_figure


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
