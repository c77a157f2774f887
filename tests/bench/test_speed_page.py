"""The page on speed shows what the record holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from signwise.bench.records import read_records
from signwise.reproduce.markers import fill, names

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("speed_page")


def row(engine: str, precision: str, seconds: float) -> dict[str, Any]:
    entry = {"batch": 16, "threads": 2, "best": seconds}
    sizes = {"file_bytes": 1_400_000, "memory_bytes": 8_600_000}
    return {"engine": engine, "title": engine.upper(), "precision": precision, "times": [entry]} | sizes


PATH = Path("results/inference/beads.json")


def record() -> dict[str, Any]:
    rows = [row("signwise", "float32", 0.04), row("mnn", "float32", 0.06), row("mnn", "int8", 0.05)]
    failure = {"engine": "openvino", "precision": "int8", "reason": "it crashed here"}
    measured = {"rows": rows, "notes": ["a note"], "failures": [failure], "isa": "abacus"}
    hardware = {"processor": "beads", "cores": 2, "system": "wood"}
    return {
        "date": "2030-01-02T03:04:05Z",
        "versions": {"signwise": "8", "python": "9"},
        "hardware": hardware,
        "revision": "0123456789",
        "networks": {"resnet18": measured},
    }


def test_every_time_is_shown_with_its_ratio_to_ours(page: ModuleType) -> None:
    shown = page.blocks({PATH: record()})["times"]
    assert "| engine | activations | batch 16, 2 threads | memory | file |" in shown
    assert "| **SIGNWISE** | float32 | 40 ms | 8.6 MB | 1.4 MB |" in shown
    assert "| MNN | float32 | 60 ms (1.50 ×) | 8.6 MB | 1.4 MB |" in shown
    # Without ours beside it there is nothing to divide by.
    assert "| MNN | int8 | 50 ms | 8.6 MB | 1.4 MB |" in shown
    assert "- a note." in shown and "- OpenVINO int8 is missing; it says: it crashed here." in shown


def test_the_origin_names_machine_date_and_versions(page: ModuleType) -> None:
    shown = page.blocks({PATH: record()})["times"]
    parts = (
        "## beads\n",
        "2030-01-02",
        "2 cores",
        "abacus",
        "python 9",
        "signwise 8 (revision 0123456)",
        "(../results/",
    )
    assert all(part in shown for part in parts)


def test_what_is_not_recorded_is_said_to_be_missing(page: ModuleType) -> None:
    assert page.blocks({}) == {"times": page.MISSING}


def test_what_was_measured_with_avx2_alone_has_a_section_of_its_own(page: ModuleType) -> None:
    assert "AVX2" not in page.blocks({PATH: record()})["times"]
    hidden = record() | {"avx2": {"networks": record()["networks"]}}
    assert page.blocks({PATH: hidden})["times"].count("### ResNet-18") == 2
    assert "## beads, with AVX2 alone" in page.blocks({PATH: hidden})["times"]


def test_rendering_again_changes_nothing(page: ModuleType) -> None:
    blocks = page.blocks(read_records(ROOT / "results"))
    text = (ROOT / "docs" / "speed.md").read_text()
    assert names(text) == tuple(blocks)
    assert fill(text, blocks) == text, "docs/speed.md does not show what results/ holds: make render"
