"""The page on reliability shows what the record holds, and promises no other numbers than the code has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from signwise.datasets import archive, cifar, download, known_file

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
RECORD: dict[str, Any] = json.loads((ROOT / "results" / "reliability.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("kill_training")


def test_every_part_of_the_record_says_where_it_comes_from() -> None:
    for section in ("kills", "faults", "torchrun"):
        assert {"date", "versions", "hardware", "revision"} <= RECORD[section].keys()


def test_nothing_in_the_record_was_lost_or_changed(script: ModuleType) -> None:
    assert all(script.holds(RECORD[section]) for section in ("kills", "faults", "torchrun"))
    assert not script.holds({"identical": 2, "runs": 3})
    assert not script.holds({"faults": 2, "readable": 2, "next_write_succeeds": 1})


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    assert download._LEAST == 64 << 10 and download._PATIENCE == 180
    assert known_file._MOST_OF_ONES_OWN == 16 and archive._MOST_OF_OTHERS == 64 << 20
    assert f"an interpreter of the {len(cifar._OPCODES)} opcodes" in PAGE
