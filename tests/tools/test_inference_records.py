"""The records of the inference benchmark: the newest first, and always against the fastest peer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tools.inference_records import against_fastest_peer, read_records


def network(**milliseconds: float) -> dict[str, Any]:
    """A network's part of a record: ``engine_precision=`` the time at batch 1 and one thread."""
    rows = []
    for key, time in milliseconds.items():
        engine, precision = key.split("_")
        entry = {"batch": 1, "threads": 1, "best": time / 1000}
        rows.append({"engine": engine, "title": engine.upper(), "precision": precision, "times": [entry]})
    return {"rows": rows}


def test_the_fastest_other_engine_is_the_peer() -> None:
    measured = network(signwise_float32=4.0, pytorch_float32=20.0, mnn_float32=12.0)
    times = against_fastest_peer(measured, "float32", 1)
    assert times is not None
    assert (times.ours, times.peer, times.engine) == (0.004, 0.012, "MNN") and times.ratio == pytest.approx(3)


def test_without_ours_or_without_a_peer_there_is_no_comparison() -> None:
    assert against_fastest_peer(network(pytorch_float32=20.0), "float32", 1) is None
    assert against_fastest_peer(network(signwise_float32=4.0, numpy_float32=90.0), "float32", 1) is None


def test_the_newest_record_comes_first(tmp_path: Path) -> None:
    assert read_records(tmp_path / "results") == {}
    folder = tmp_path / "results" / "inference"
    folder.mkdir(parents=True)
    for name, date in (("a", "2030-01-01T00:00:00Z"), ("b", "2030-03-01T00:00:00Z"), ("c", "2030-02-01T00:00:00Z")):
        (folder / f"{name}.json").write_text(json.dumps({"date": date}))
    found = read_records(tmp_path / "results")
    assert [path.as_posix() for path in found] == [f"results/inference/{name}.json" for name in "bca"]
