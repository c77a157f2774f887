"""Errors with 1 and with 32 bits: a missing error leaves its mark out."""

from __future__ import annotations

import pytest

from signwise.errors import SignwiseError
from signwise.figures.bit_widths import ErrorPair, bit_widths_figure


def test_a_pair_with_one_error_missing_is_drawn_without_the_other() -> None:
    paper = ErrorPair(label="LeNet5", full=0.6, binary=0.5, is_ours=False)
    ours = ErrorPair(label="LeNet5", full=None, binary=0.55, is_ours=True)
    (axes,) = bit_widths_figure([paper, ours]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["LeNet5, paper", "LeNet5, ours"]
    assert len(axes.get_lines()) == 1
    with pytest.raises(SignwiseError, match="at least one experiment"):
        bit_widths_figure([])
