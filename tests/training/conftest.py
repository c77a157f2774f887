"""Options and command line of the small recipe, and what its runs leave behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signwise.training import Options
from signwise.training.run_folder import read_records

SmallOptions = Callable[..., Options]


@pytest.fixture
def options(digits: Path) -> SmallOptions:
    """``options(...)``: options for the small recipe."""

    def make(**more: Any) -> Options:
        defaults: dict[str, Any] = {"data": digits, "device": "cpu", "tensorboard": False}
        return Options(**defaults | more)

    return make


@pytest.fixture(scope="session")
def small_command(digits: Path) -> list[str]:
    """The small recipe on the command line, with a checkpoint after every step; ``--out`` is missing."""
    run = ["train", "lenet5-mnist", "--epochs", "4", "--batch-size", "20", "--data", str(digits)]
    return [*run, "--device", "cpu", "--no-tensorboard", "--checkpoint-minutes", "0"]


@pytest.fixture(scope="session")
def story() -> Callable[[Path], Any]:
    """``story(folder)``: what a run leaves behind, apart from times, so that runs can be compared."""

    def read(folder: Path) -> Any:
        metrics = read_records(folder / "metrics.jsonl")
        for row in metrics:
            del row["seconds"], row["images_per_second"]
        result = json.loads((folder / "config.json").read_text())["result"]
        del result["seconds"]
        weights = [(folder / f"{name}.safetensors").read_bytes() for name in ("best", "last")]
        return metrics, read_records(folder / "state.jsonl"), result, weights

    return read
