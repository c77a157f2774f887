"""The speed pages show what the records hold: a summary, and every time with its ratio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools import speed


def row(engine: str, precision: str, seconds: float) -> dict[str, Any]:
    entry = {"batch": 16, "threads": 2, "best": seconds}
    sizes = {"file_bytes": 1_400_000, "memory_bytes": 8_600_000}
    return {"engine": engine, "title": engine.upper(), "precision": precision, "times": [entry]} | sizes


PATH = Path("results/inference/beads.json")


def record(ours: float = 0.04) -> dict[str, Any]:
    rows = [row("signwise", "float32", ours), row("mnn", "float32", 0.06), row("mnn", "int8", 0.05)]
    failure = {"engine": "openvino", "precision": "int8", "reason": "it crashed here"}
    measured = {"rows": rows, "notes": ["a note"], "failures": [failure], "isa": "abacus"}
    return {
        "date": "2030-01-02T03:04:05Z",
        "versions": {"signwise": "8", "python": "9"},
        "hardware": {"processor": "beads", "cores": 2, "system": "wood"},
        "revision": "0123456789",
        "networks": {"resnet18": measured},
    }


def test_every_time_is_shown_with_its_ratio_to_ours() -> None:
    shown = speed.all_times({PATH: record()})
    assert "| engine | activations | batch 16, 2 threads | memory | file |" in shown
    assert "| **SIGNWISE** | float32 | 40 ms | 8.6 MB | 1.4 MB |" in shown
    assert "| MNN | float32 | 60 ms (1.50 ×) | 8.6 MB | 1.4 MB |" in shown
    # Without ours beside it there is nothing to divide by.
    assert "| MNN | int8 | 50 ms | 8.6 MB | 1.4 MB |" in shown
    assert "- a note." in shown and "- OpenVINO int8 is missing: it crashed here." in shown


def test_the_origin_names_machine_date_and_versions() -> None:
    shown = speed.all_times({PATH: record()})
    parts = ("## beads\n", "2030-01-02", "2 cores", "abacus", "python 9", "signwise 8", "revision 0123456")
    assert all(part in shown for part in parts)
    assert "(../inference/beads.json)" in shown


def test_the_summary_gives_the_range_of_ratios_and_lists_where_we_are_slower() -> None:
    faster, slower = (speed.blocks({PATH: record(ours)})["speed"] for ours in (0.04, 0.12))
    assert "| beads | ResNet-18 | 2030-01-02 | 1.50 to 1.50 × | – |" in faster
    assert "Of 1 comparisons, signwise is slower in 0." in faster
    assert "slower in 1: ResNet-18 with float32 at batch 16, 2 threads on beads (0.50 ×)." in slower


def test_what_was_measured_with_avx2_alone_has_its_own_section() -> None:
    assert "AVX2 alone" not in speed.all_times({PATH: record()})
    hidden = record() | {"avx2": {"networks": record()["networks"]}}
    assert speed.all_times({PATH: hidden}).count("### ResNet-18") == 2
    assert "## beads, AVX2 alone" in speed.all_times({PATH: hidden})
    assert "| beads, AVX2 alone | ResNet-18 |" in speed.blocks({PATH: hidden})["speed"]


def test_a_missing_record_is_reported_as_missing() -> None:
    assert speed.blocks({}) == {"speed": speed.MISSING, "layers": speed.MISSING}
    assert speed.MISSING in speed.all_times({})


def test_a_network_of_an_earlier_revision_says_so() -> None:
    given = record()
    given["networks"]["resnet18"] |= {"date": given["date"], "revision": given["revision"]}
    assert "at revision" not in speed.all_times({PATH: given})
    given["networks"]["resnet18"] |= {"date": "2029-12-31T00:00:00Z", "revision": "abcdef0123"}
    assert "- Measured 2029-12-31 at revision abcdef0." in speed.all_times({PATH: given})


def test_the_times_of_layers_are_added_up_by_kind() -> None:
    shown = record()
    assert speed.blocks({PATH: shown})["layers"] == speed.MISSING
    layers = [
        {"kind": kind, "output": [1], "seconds": seconds} for kind, seconds in (("a", 1e-5), ("a", 2e-5), ("b", 0))
    ]
    shown["networks"] = {"mobilenet_v2": shown["networks"]["resnet18"] | {"layers": {"float32": layers, "int8": []}}}
    table = speed.blocks({PATH: shown})["layers"]
    assert "| a | 30 | 0 |" in table and "| b | 0 | 0 |" in table and "On beads" in table
