"""Error curves: a float run has no relaxed line, and an empty run no figure."""

from __future__ import annotations

import pytest

from signwise.errors import SignwiseError
from signwise.figures.error_curves import error_curves_figure


def test_error_curves_of_a_float_run_have_no_relaxed_line() -> None:
    binary = error_curves_figure({"error": [90.0, 2.0], "relaxed_error": [2.0, 2.0], "train_error": [3.0, 1.0]})
    full = error_curves_figure({"error": [3.0, 2.0], "relaxed_error": [None, None], "train_error": [3.0, 1.0]})
    assert [len(axes.get_lines()) for axes in binary.axes] == [3, 2]
    assert [len(axes.get_lines()) for axes in full.axes] == [2, 1]
    with pytest.raises(SignwiseError, match="at least one finished epoch"):
        error_curves_figure({"error": []})
