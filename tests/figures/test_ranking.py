"""The ranking: one row per method, one mark per setting that was measured, a bar as long as the spread of the seeds."""

from __future__ import annotations

import pytest
from matplotlib.container import ErrorbarContainer

from signwise.errors import SignwiseError
from signwise.figures.ranking import Ranked, ranking_figure


def test_every_measured_setting_has_a_mark_at_its_mean_with_the_spread_of_its_seeds() -> None:
    rows = [
        Ranked(label="a", errors={"common": [1.0, 3.0], "authors": []}),
        Ranked(label="b", errors={"common": [4.0], "authors": [2.0, 2.0, 5.0]}),
    ]
    (place,) = ranking_figure(rows).axes
    marks = [mark for mark in place.containers if isinstance(mark, ErrorbarContainer) and len(mark[0].get_xdata())]
    assert [float(mark[0].get_xdata()[0]) for mark in marks] == [2.0, 4.0, 3.0]
    ends = [mark[2][0].get_segments()[0][:, 0].tolist() for mark in marks]
    assert ends[0] == pytest.approx([2 - 2**0.5, 2 + 2**0.5]) and ends[1] == [4.0, 4.0]
    assert [label.get_text() for label in place.get_yticklabels()] == ["a", "b"]


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(SignwiseError, match="at least one measured method"):
        ranking_figure([Ranked(label="a", errors={"common": []})])
