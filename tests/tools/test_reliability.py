"""The blocks of the reliability page: one row per part of the records, and none for a part that is missing."""

from __future__ import annotations

import json
from pathlib import Path

from tools import reliability

ORIGIN = {"date": "2026-01-02T00:00:00Z", "hardware": {"processor": "A CPU"}}


def test_each_part_of_a_record_is_one_row(tmp_path: Path) -> None:
    kills = {"kills": ORIGIN | {"kills": 24, "runs": 3, "identical": 3}}
    kills |= {"torchrun": ORIGIN | {"kills": 20, "runs": 1, "identical": 1}}
    parts = {
        "fuzz": {"files": 5000, "loaded": 700, "run": 690, "refused": 4300},
        "calls": {"calls": 1000, "programs": 6, "bytes_per_call": -0.0, "growth_bytes": 4096},
    }
    (tmp_path / "reliability.json").write_text(json.dumps(kills))
    (tmp_path / "reliability-native.json").write_text(json.dumps(ORIGIN | {"parts": parts}))
    blocks = reliability.blocks(tmp_path)
    assert "| 24 kills in 3 runs | 3 of 3 runs end bit-identical |" in blocks["kills"]
    assert "| 20 kills in 1 run | 1 of 1 run ends bit-identical |" in blocks["kills"]
    assert "| 5,000 files | 700 loaded and 690 small enough of them run, 4,300 refused, no crash |" in blocks["runtime"]
    assert (
        "| 1,000 calls | 4,096 bytes more in all, 0 per call |" in blocks["runtime"]
        and blocks["runtime"].count("\n| ") == 2
    )
    assert "2026-01-02, A CPU: [the record](../results/reliability-native.json)" in blocks["runtime"]


def test_files_tried_at_several_revisions_are_shown_by_revision() -> None:
    counts = {"files": 3000, "loaded": 1, "run": 1, "refused": 2999, "revisions": {"a" * 40: 2000, "b" * 40: 1000}}
    assert "| 3,000 files: 2,000 at aaaaaaa, 1,000 at bbbbbbb |" in reliability.runtime(
        ORIGIN | {"parts": {"fuzz": counts}}
    )


def test_without_records_the_tables_are_empty(tmp_path: Path) -> None:
    assert all(block.count("\n|") == 1 for block in reliability.blocks(tmp_path).values())
