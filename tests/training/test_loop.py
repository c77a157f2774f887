"""The loop: readings when they are due, a stop after the step that asked for it, records that JSON can hold."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch

from signwise.datasets import load
from signwise.diagnose import signs_of
from signwise.training import Options, Recipe
from signwise.training.checkpoint import Progress
from signwise.training.data import standardized_data
from signwise.training.distributed import World
from signwise.training.loop import EpochRecord, Event, Loop, Reading, Reporter, Started
from signwise.training.step import Stepper, build_model

CPU = torch.device("cpu")


class Collected(Reporter):
    def __init__(self, reading_seconds: float | None = None) -> None:
        self.reading_seconds = reading_seconds
        self.events: list[Event] = []

    def report(self, event: Event) -> None:
        self.events.append(event)


def stepper(recipe: Recipe, digits: Path) -> Stepper:
    data = standardized_data(load("mnist", digits), CPU)
    return Stepper(recipe, Options(), build_model(recipe, 10), data, World(rank=0, size=1, device=CPU))


def test_each_reporter_gets_readings_at_its_own_pace(small: Recipe, digits: Path) -> None:
    eager, never, rare = Collected(0.0), Collected(None), Collected(3600.0)
    Loop(stepper(small, digits), Progress(), reporters=[eager, never, rare]).run(12)
    readings = [event for event in eager.events if isinstance(event, Reading)]
    assert [reading.step for reading in readings] == [*range(1, 10), 11, 12], "an epoch that just ended has no loss"
    assert [reading.epoch for reading in readings] == 9 * [1] + 2 * [2]
    assert all(0 < reading.loss < 20 and reading.seconds_left > 0 for reading in readings)
    assert [type(event) for event in never.events] == [type(event) for event in rare.events] == [Started, EpochRecord]


def test_a_run_stops_after_the_step_in_which_it_was_asked_to(small: Recipe, digits: Path) -> None:
    progress = Progress()
    loop = Loop(stepper(small, digits), progress, should_stop=lambda: progress.step == 6)
    loop.run()
    assert loop.stopped and progress.step == 7


def test_a_run_in_two_calls_is_announced_once_and_equals_one_call(small: Recipe, digits: Path) -> None:
    whole, parts, reporter = stepper(small, digits), stepper(small, digits), Collected()
    Loop(whole, Progress()).run(14)
    loop = Loop(parts, Progress(), reporters=[reporter])
    loop.run(3)
    loop.run(11)
    for first, second in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        assert torch.equal(first, second)
    assert sum(isinstance(event, Started) for event in reporter.events) == 1


def test_an_epoch_record_has_the_keys_of_metrics_jsonl_and_no_number_that_json_lacks(
    small: Recipe, digits: Path
) -> None:
    reporter = Collected()
    Loop(stepper(small, digits), Progress(), reporters=[reporter]).run(10)
    (record,) = (event for event in reporter.events if isinstance(event, EpochRecord))
    assert list(record.to_json()) == [
        "epoch",
        "step",
        "train_loss",
        "train_error",
        "error",
        "loss",
        "relaxed_error",
        "relaxed_loss",
        "alpha",
        "zeta",
        "degenerate_groups",
        "flipped_signs",
        "relative_step",
        "learning_rate",
        "weight_decay",
        "images_per_second",
        "seconds",
    ]
    infinite = dataclasses.replace(record, loss=math.inf, relaxed_loss=math.nan).to_json()
    assert infinite["loss"] is infinite["relaxed_loss"] is None
    json.dumps(infinite, allow_nan=False)


def test_an_epoch_records_how_many_signs_flipped_and_how_far_its_last_step_went(small: Recipe, digits: Path) -> None:
    trained, reporter = stepper(small, digits), Collected()
    before = signs_of(trained.model)
    Loop(trained, Progress(), reporters=[reporter]).run(trained.steps_per_epoch)
    (record,) = [event for event in reporter.events if isinstance(event, EpochRecord)]
    after = signs_of(trained.model)
    flipped = sum(int((before[name] != after[name]).sum()) for name in before)
    total = sum(signs.numel() for signs in before.values())
    assert record.flipped_signs == pytest.approx(flipped / total) and record.relative_step is not None
    assert record.relative_step > 0
