"""README's numbers are those of the records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tools.ship import best_record

from signwise.reproduce.records import mean_and_spread, read_training_records
from tools import readme

ROOT = Path(__file__).parents[2]
ERRORS = {1: (0.53, "0.53"), 32: (0.64, "0.64")}


def network(**milliseconds: float) -> dict[str, Any]:
    """A network's part of a record: ``engine_precision=`` the time at batch 1 and one thread."""
    rows = []
    for key, time in milliseconds.items():
        engine, precision = key.split("_")
        entry = {"batch": 1, "threads": 1, "best": time / 1000}
        sizes = {"file_bytes": 1_400_000, "memory_bytes": 10_000_000}
        rows.append({"engine": engine, "title": engine.upper(), "precision": precision, "times": [entry]} | sizes)
    return {"rows": rows, "float_bytes": 44_800_000}


def record() -> dict[str, Any]:
    return {
        "date": "2030-01-02T03:04:05Z",
        "versions": {"signwise": "9", "python": "3.99"},
        "hardware": {"processor": "abacus"},
        "networks": {"resnet18": network(signwise_float32=4.0, mnn_float32=12.0, signwise_int8=2.0, openvino_int8=5.0)},
    }


def test_every_cell_of_the_table_is_one_ratio() -> None:
    other = record() | {"hardware": {"processor": "beads(R) Processor"}, "avx2": {"networks": record()["networks"]}}
    text = readme.figures({Path("results/a.json"): record(), Path("results/b.json"): other}, ERRORS)
    assert "|  | file | float32, batch 1 | float32, batch 16 | 8-bit, batch 1 | 8-bit, batch 16 |" in text
    assert "| ResNet-18 | 32 × | 3.0 × | – | 2.5 × | – |" in text
    assert "| ResNet-18, beads | 32 ×" in text and "| ResNet-18, beads, AVX2 only | 32 ×" in text
    assert "abacus, 2030-01-02; named rows: beads, 2030-01-02." in text
    assert "0.53 % with 1 bit, 0.64 % with 32 bits" in text


def test_a_shipped_network_for_cifar10_is_a_fact_if_its_training_is_recorded(tmp_path: Path) -> None:
    assert readme.cifar10_facts(tmp_path) == []
    record = "vgg_fast-cifar10-1bit-0.json"
    shutil.copy(ROOT / "results" / record, tmp_path)
    (fact,) = readme.cifar10_facts(tmp_path)
    last = json.loads((tmp_path / record).read_text())["result"]["last_error"]
    assert f"20 epochs, last error: {last:.2f} %" in fact


def test_the_fact_about_resnet20_is_about_all_seeds_of_the_shipped_network() -> None:
    (fact,) = (fact for fact in readme.cifar10_facts(ROOT / "results") if fact.startswith("ResNet-20"))
    shipped = best_record(read_training_records(ROOT / "results"), "resnet20_fast-cifar10")
    assert shipped is not None and shipped.name.endswith("-1")
    paths = [ROOT / "results" / f"{shipped.name.removesuffix('-1')}-{seed}.json" for seed in (0, 1)]
    errors = [json.loads(path.read_text())["result"]["last_error"] for path in paths]
    assert f"{shipped.recipe.epochs} with 1 bit, last error: {mean_and_spread(errors)} %" in fact


def test_a_ratio_near_1_shows_which_side_is_faster() -> None:
    slower = record() | {"networks": {"resnet18": network(signwise_float32=4.0, mnn_float32=3.9)}}
    assert "| ResNet-18 | 32 × | 0.97 × |" in readme.figures({Path("results/a.json"): slower}, {})


def test_the_picture_shows_bytes_times_and_errors() -> None:
    bytes_on_disk, time, error = readme.picture(record(), ERRORS)
    assert [bar.text for bar in bytes_on_disk.bars] == ["44.8", "1.4"]
    assert [(bar.text, bar.binary) for bar in time.bars] == [("12.00", False), ("4.00", True)]
    assert [(bar.text, bar.binary) for bar in error.bars] == [("0.64", False), ("0.53", True)]


def test_a_record_without_the_network_of_the_overview_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "results" / "inference").mkdir(parents=True)
    partial = {"date": "2030-01-02T03:04:05Z", "networks": {"lenet5": network(signwise_float32=4.0)}}
    (tmp_path / "results" / "inference" / "abacus.json").write_text(json.dumps(partial))
    assert set(readme.blocks(tmp_path / "results").values()) == {readme.MISSING}
