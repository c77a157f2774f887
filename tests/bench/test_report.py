"""The report: times, ratios and failures as a table and as JSON."""

from __future__ import annotations

import json

import pytest

from signwise.bench.measure import Comparison
from signwise.bench.report import as_data, table


def test_the_table_shows_times_ratios_and_what_is_missing(comparison: Comparison) -> None:
    lines = table(comparison).splitlines()
    assert lines[0].split("  ")[0] == "engine"
    assert [line.split()[0] for line in lines[1:5]] == ["signwise", "ONNX", "OpenVINO", "signwise"]
    assert "12 ms   3.0x" in lines[2]
    assert "batch 1, 1 thread: 2.50 times as fast as OpenVINO float32" in lines
    assert "batch 16, 2 threads: 1.20 times as fast as ONNX Runtime float32" in lines
    assert "file: 22.0 times smaller than with float32 weights" in lines
    assert "note: a thing to know" in lines
    assert lines[-1] == "MNN float32 is missing: it crashed here: Aborted"


def test_the_data_holds_every_time_in_seconds(comparison: Comparison) -> None:
    data = json.loads(json.dumps(as_data(comparison)))
    assert data["rows"][1]["times"][1] == {"batch": 16, "threads": 2, "best": 0.06, "median": 0.12, "runs": 7}
    assert data["speedups"][0] == {"precision": "float32", "batch": 1, "threads": 1, "over_fastest": pytest.approx(2.5)}
    assert data["failures"][0]["engine"] == "mnn"
