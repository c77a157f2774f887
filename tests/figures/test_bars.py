"""Comparisons: every bar has its value and the colour of its kind, every engine a bar, every known error a mark."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from signwise.bench.isolated import ENGINES
from signwise.bench.measure import Comparison, Row, Setting
from signwise.bench.timing import Timing
from signwise.errors import SignwiseError
from signwise.figures import BINARY, FLOAT, save
from signwise.figures.bars import Bar, ErrorPair, Panel, bars_figure, bit_widths_figure, engine_times_figure


def test_every_bar_has_its_length_its_text_and_the_colour_of_its_kind() -> None:
    bars = [
        Bar(label="32 bits", value=44.0, text="44.0", binary=False),
        Bar(label="1 bit", value=1.4, text="1.4", binary=True),
    ]
    first, second = bars_figure([Panel(title="MB", bars=bars), Panel(title="ms", bars=bars[:1])]).axes
    assert [to_hex(bar.get_facecolor()) for bar in first.patches] == [FLOAT, BINARY]
    assert [text.get_text() for text in first.texts] == ["44.0", "1.4"]
    assert [label.get_text() for label in first.get_yticklabels()] == ["32 bits", "1 bit"]
    assert len(second.patches) == 1


def test_the_chart_has_one_panel_per_setting_and_one_bar_per_engine(tmp_path: Path) -> None:
    settings = [Setting(batch=1, threads=1), Setting(batch=16, threads=2)]
    timings = {setting: Timing(best=0.004, median=0.005, runs=7) for setting in settings}
    rows = [
        Row(engine=ENGINES[name], precision="float32", file_bytes=1, memory_bytes=1, difference=0.0, timings=timings)
        for name in ("signwise", "pytorch", "mnn")
    ]
    comparison = Comparison(settings=settings, rows=rows, failures=[], float_bytes=1, notes=[])
    figure = engine_times_figure(comparison, "net.sw")
    assert [len(axis.patches) for axis in figure.axes] == [3, 3]
    save(figure, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_a_pair_with_one_error_missing_is_drawn_without_the_other() -> None:
    paper = ErrorPair(label="LeNet5", full=0.6, binary=0.5, is_ours=False)
    ours = ErrorPair(label="LeNet5", full=None, binary=0.55, is_ours=True)
    (axes,) = bit_widths_figure([paper, ours]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["LeNet5, paper", "LeNet5, ours"]
    assert len(axes.get_lines()) == 1
    with pytest.raises(SignwiseError, match="at least one experiment"):
        bit_widths_figure([])
