"""A run that takes a second: LeNet5 on 200 synthetic digits, 4 epochs of 10 steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from signwise.training import Options, Recipe, recipe
from signwise.training.run_folder import read_records

SmallOptions = Callable[..., Options]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """More threads are slower on networks of this size, and the machine has other work."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def digits(synthetic_data: Callable[..., Path]) -> Path:
    """A folder with 200 training and 100 test images in MNIST's layout."""
    return synthetic_data("mnist", train=200, test=100)


@pytest.fixture(scope="session")
def small() -> Recipe:
    """LeNet5 for 40 steps."""
    return recipe("lenet5-mnist").changed(epochs=4, batch_size=20)


@pytest.fixture
def options(digits: Path, tmp_path: Path) -> SmallOptions:
    """``options(out="run", ...)``: options for the small recipe in a folder of this test."""

    def make(out: str = "run", **more: Any) -> Options:
        defaults: dict[str, Any] = {"data": digits, "device": "cpu", "tensorboard": False}
        return Options(out=tmp_path / out, **defaults | more)

    return make


@pytest.fixture(scope="session")
def small_command(digits: Path) -> list[str]:
    """The small recipe on the command line, with a checkpoint after every step; ``--out`` is missing."""
    run = ["train", "lenet5-mnist", "--epochs", "4", "--batch-size", "20", "--data", str(digits)]
    return [*run, "--device", "cpu", "--no-tensorboard", "--checkpoint-minutes", "0"]


@pytest.fixture(scope="session")
def story() -> Callable[[Path], Any]:
    """``story(folder)``: all that a run leaves behind and that must not depend on when it was interrupted."""

    def read(folder: Path) -> Any:
        metrics = read_records(folder / "metrics.jsonl")
        for row in metrics:
            del row["seconds"], row["images_per_second"]
        result = json.loads((folder / "config.json").read_text())["result"]
        del result["seconds"]
        weights = [(folder / f"{name}.safetensors").read_bytes() for name in ("best", "last")]
        return metrics, read_records(folder / "state.jsonl"), result, weights

    return read
