"""Records of several processors stay side by side."""

from __future__ import annotations

import json
from pathlib import Path

from signwise.bench.records import read_records, record_path


def test_every_processor_has_a_file_of_its_own():
    names = ("AMD EPYC", "AMD EPYC 9354 32-Core Processor", "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz")
    paths = [record_path(Path("results"), name).name for name in names]
    assert paths == ["amd-epyc.json", "amd-epyc-9354-32-core-processor.json", "intel-core-i7-4770-cpu-3-40ghz.json"]


def test_the_newest_record_comes_first(tmp_path):
    assert read_records(tmp_path / "results") == {}
    for name, date in (("a", "2030-01-01T00:00:00Z"), ("b", "2030-03-01T00:00:00Z"), ("c", "2030-02-01T00:00:00Z")):
        path = record_path(tmp_path / "results", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"date": date}))
    found = read_records(tmp_path / "results")
    assert [path.as_posix() for path in found] == [f"results/inference/{name}.json" for name in "bca"]
