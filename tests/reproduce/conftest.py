"""Records to render from: made up, and from a real run that takes a second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signwise.reproduce.records import Record, Result
from signwise.training import Options, Recipe, train

MadeUp = Callable[..., Record]


@pytest.fixture(scope="session")
def small_run(small: Recipe, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("runs") / "any-name"
    train(small, folder, options=Options(data=digits, device="cpu", tensorboard=False))
    return folder


@pytest.fixture(scope="session")
def made_up() -> MadeUp:
    """``made_up(recipe, best=0.5, last=0.6)``: a record with these errors."""

    def make(trained: Recipe, best: float = 0.5, last: float = 0.6, **more: Any) -> Record:
        falling = [round(best + 40 / (1 + epoch) ** 2, 2) for epoch in range(trained.epochs - 1)]
        relaxed = None if trained.bits == 32 else last
        hardware = {"system": "Linux x86_64", "processor": "a processor", "cores": 2, "device": "cpu"}
        origin = {
            "started": "2026-01-02T03:04:05Z",
            "finished": "2026-01-02T04:04:05Z",
            "processes": 1,
            "threads": 1,
            "versions": {"signwise": "0.1.0", "python": "3.11.7", "torch": "2.13.0"},
            "hardware": hardware,
            "revision": "0123456789abcdef",
            "options": {"device": "cpu"},
            "resumed": [],
        }
        result = Result(
            best_error=best,
            best_epoch=trained.epochs - 1,
            last_error=last,
            last_relaxed_error=relaxed,
            first_train_loss=2.0,
            last_train_loss=0.5,
            seconds=3600.0,
            seconds_per_step=0.05,
        )
        content: dict[str, Any] = {
            "recipe": trained,
            "network": {"parameters": 431_650, "binary_weights": 425_500, "macs": 2_293_000},
            "total_steps": 600 * trained.epochs,
            "result": result,
            "curves": {"error": [*falling, last]},
            "state": [],
            "origin": origin,
        }
        return Record(**content | more)

    return make
