"""Every recipe runs through, on the publishers' layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import signwise.cli
from signwise.training import RECIPES, checkpoint
from signwise.training.run_folder import read_config, read_records

pytestmark = pytest.mark.slow

# The wide model takes seconds per step even on two images: each of its data sets once, each bit width once.
RUNS = [(name, bits) for name in RECIPES for bits in (1, 32) if not name.startswith("wrn")]
RUNS += [("wrn28_10-cifar10", 32), ("wrn28_10-cifar100", 1)]


@pytest.fixture(scope="module")
def data(synthetic_data: Callable[..., Path]) -> dict[str, Path]:
    return {name: synthetic_data(name, train=100, test=100) for name in ("mnist", "cifar10", "cifar100")}


@pytest.mark.parametrize(("name", "bits"), RUNS)
def test_a_recipe_runs_through(
    name: str, bits: int, data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("wrn"):
        # Half a gigabyte of weights: the smaller models show that they are written.
        monkeypatch.setattr(checkpoint, "write_tensors", lambda *arguments, **options: None)
    dataset = name.split("-")[1]
    samples = ["--train-samples", "2" if name.startswith("wrn") else "8", "--epochs", "1"]
    command = ["train", name, "--bits", str(bits), "--data", str(data[dataset]), *samples, "--device", "cpu"]
    assert signwise.cli.main([*command, "--no-tensorboard", "--out", str(tmp_path)]) == 0
    (row,) = read_records(tmp_path / "metrics.jsonl")
    assert 0 < row["train_loss"] < 20 and (row["relaxed_error"] is None) == (bits == 32)
    assert len(read_config(tmp_path)["network"]["classes"]) == (100 if dataset == "cifar100" else 10)


def test_a_recipe_runs_through_on_the_real_cifar(real_data: Path, tmp_path: Path) -> None:
    command = ["train", "resnet20-cifar10", "--data", str(real_data), "--train-samples", "256", "--epochs", "1"]
    assert signwise.cli.main([*command, "--batch-size", "64", "--device", "cpu", "--out", str(tmp_path)]) == 0
    (row,) = read_records(tmp_path / "metrics.jsonl")
    assert row["step"] == 4 and row["train_loss"] < 3
