"""What README and the page on kernels say in numbers is what the records say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from signwise.reproduce.markers import fill

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def render(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("render")


def network(**milliseconds: float) -> dict[str, Any]:
    """A network's part of a record: ``engine_precision=`` the time at batch 1 and one thread."""
    rows = []
    for key, time in milliseconds.items():
        engine, precision = key.split("_")
        entry = {"batch": 1, "threads": 1, "best": time / 1000}
        sizes = {"file_bytes": 1_400_000, "memory_bytes": 10_000_000}
        rows.append({"engine": engine, "title": engine.upper(), "precision": precision, "times": [entry]} | sizes)
    return {"rows": rows, "state_dict_bytes": 44_800_000}


def test_the_fastest_other_engine_is_compared_with(render):
    fight = render.duel(network(signwise_float32=4.0, pytorch_float32=20.0, mnn_float32=12.0), "float32", 1)
    assert (fight.ours, fight.theirs, fight.engine) == (0.004, 0.012, "MNN")
    assert render.duel(network(pytorch_float32=20.0), "float32", 1) is None
    assert render.duel(network(signwise_float32=4.0, numpy_float32=90.0), "float32", 1) is None


def test_numbers_are_those_of_the_record(render):
    record = {
        "date": "2030-01-02T03:04:05Z",
        "versions": {"signwise": "9", "python": "3.99"},
        "hardware": {"processor": "abacus"},
        "networks": {"resnet18": network(signwise_float32=4.0, mnn_float32=12.0, signwise_int8=2.0, openvino_int8=5.0)},
    }
    other = record | {"hardware": {"processor": "beads"}, "avx2": {"networks": record["networks"]}}
    records = {Path("results/a.json"): record, Path("results/b.json"): other}
    text = render.figures(records, {1: (0.53, "0.53"), 32: (0.64, "0.64")})
    assert "| ResNet-18 | 44.80 → 1.40: 32.0 × | 12.00 (MNN) → 4.00: 3.00 × | – |" in text
    assert "| 5.00 (OPENVINO) → 2.00: 2.50 × | – |" in text
    assert (
        "with 1 bit 0.53 %, with 32 bits 0.64 %" in text
        and "2030-01-02 on an abacus ([the record](results/a.json))" in text
    )
    assert "| ResNet-18, beads | 44.80" in text and "| ResNet-18, beads, AVX2 only | 44.80" in text
    bytes_on_disk, time, error = render.picture(record, {1: (0.53, "0.53"), 32: (0.64, "0.64")})
    assert [bar.text for bar in bytes_on_disk.bars] == ["44.8", "1.4"]
    assert [(bar.text, bar.binary) for bar in time.bars] == [("12.00", False), ("4.00", True)]
    assert [(bar.text, bar.binary) for bar in error.bars] == [("0.64", False), ("0.53", True)]


def test_a_record_without_the_network_of_the_overview_is_left_out(render, tmp_path):
    (tmp_path / "results" / "inference").mkdir(parents=True)
    partial = {"date": "2030-01-02T03:04:05Z", "networks": {"lenet5": network(signwise_float32=4.0)}}
    (tmp_path / "results" / "inference" / "abacus.json").write_text(json.dumps(partial))
    assert set(render.readme(tmp_path / "results").values()) == {render.MISSING}


def test_the_page_on_kernels_shows_every_layer_of_the_record(render):
    layer = {"isa": "abacus", "channels": 64, "filters": 128, "size": 32, "stride": 2, "count": 3, "seconds": 1e-4}
    layer |= {"giga_additions_a_second": 90.4, "share_of_limit": 0.371, "clock_gigahertz": 2.5, "vectors_a_cycle": 1}
    layer |= {"shares": {"prepare": 0.1, "build": 0.2, "sums": 0.6, "finish": 0.1}}
    layers = [layer | {"activations": kind} for kind in ("float32", "int8")]
    record = {"date": "2030-01-02T03:04:05Z", "hardware": {"processor": "beads"}, "layers": layers}
    text = render.kernel_table(record)
    assert "| 3 × 64 → 128, 32x32, stride 2 | 100 | 90 | 37 % | 10 / 20 / 60 / 10 | 90 | 37 % |" in text
    assert "**abacus**, at 2.5 to 2.5 GHz, at most one vector a cycle:" in text and "beads" in text


def test_rendering_again_changes_nothing(render):
    readme, kernels = ROOT / "README.md", ROOT / "docs" / "kernels.md"
    results = ROOT / "results"
    for path, blocks in ((readme, render.readme(results)), (kernels, render.kernels_page(results))):
        text = path.read_text(encoding="utf-8")
        assert fill(text, blocks) == text, f"{path.name} does not show what results/ holds: make render"
