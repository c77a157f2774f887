"""Times of engines: a panel per setting, a bar per engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from signwise.bench.engines import ENGINES
from signwise.bench.measure import Comparison, Row, Setting
from signwise.bench.timing import Timing
from signwise.figures.engine_times import engine_times_figure
from signwise.figures.style import save


def test_the_chart_has_one_panel_per_setting_and_one_bar_per_engine(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
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
