"""attach() beside the schedulers of timm itself, which keep the first value of each field in the optimizer's groups."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any

import pytest
import torch.nn.functional as F
from tests.integrations import toy
from torch import nn

import signwise as sw

STEPS = 12


@pytest.fixture
def schedulers(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.find_spec("timm")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("timm is not installed")
    # timm's front door imports torchvision, which its schedulers do not need.
    bare = types.ModuleType("timm")
    bare.__path__ = list(spec.submodule_search_locations)
    monkeypatch.setitem(sys.modules, "timm", bare)
    return importlib.import_module("timm.scheduler.scheduler"), importlib.import_module("timm.scheduler.cosine_lr")


def begin() -> tuple[nn.Module, sw.SGDW]:
    model = toy.network()
    return model, sw.SGDW(sw.param_groups(model, weight_decay=0.05), lr=0.1)


def attach(model: nn.Module, optimizer: sw.SGDW) -> sw.Attachment:
    return sw.attach(optimizer, model, sw.BinarizationSchedule(STEPS, t_alpha=0.5), scale_weight_decay=True)


def train(model: nn.Module, optimizer: sw.SGDW, scheduler: Any, first: int, last: int) -> list[tuple[float, float]]:
    """Train as timm's script does, and return learning rate and weight decay of each step."""
    images, labels = toy.images()
    seen = []
    for update in range(first, last):
        part = slice(4 * update, 4 * update + 4)
        F.cross_entropy(model(images[part]), labels[part]).backward()
        optimizer.step()
        seen.append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["weight_decay"]))
        optimizer.zero_grad()
        scheduler.step_update(update + 1)
    return seen


def cosine(schedulers: Any, optimizer: sw.SGDW) -> Any:
    return schedulers[1].CosineLRScheduler(optimizer, t_initial=STEPS, t_in_epochs=False)


@pytest.mark.parametrize("scheduler_first", [True, False])
def test_weight_decay_follows_timms_learning_rate(schedulers: Any, scheduler_first: bool) -> None:
    model, optimizer = begin()
    if scheduler_first:
        scheduler = cosine(schedulers, optimizer)
        attach(model, optimizer)
    else:
        attach(model, optimizer)
        scheduler = cosine(schedulers, optimizer)
    seen = train(model, optimizer, scheduler, 0, STEPS)
    assert seen[0] == (0.1, 0.05) and seen[-1][0] < 0.01
    assert all(decay / 0.05 == pytest.approx(rate / 0.1) for rate, decay in seen)
    assert {group["initial_weight_decay"] for group in optimizer.param_groups} == {0.05, 0.0}


def test_a_resumed_training_with_new_objects_equals_one_that_never_stopped(schedulers: Any) -> None:
    whole, optimizer = begin()
    attach(whole, optimizer)
    train(whole, optimizer, cosine(schedulers, optimizer), 0, STEPS)

    stopped, optimizer = begin()
    attach(stopped, optimizer)
    train(stopped, optimizer, cosine(schedulers, optimizer), 0, STEPS // 2)
    saved, weights = optimizer.state_dict(), stopped.state_dict()

    resumed, optimizer = begin()
    optimizer.load_state_dict(saved)
    resumed.load_state_dict(weights)
    scheduler = cosine(schedulers, optimizer)  # reads initial_lr, not the lr of the moment
    scheduler.step_update(STEPS // 2)
    attach(resumed, optimizer)
    train(resumed, optimizer, scheduler, STEPS // 2, STEPS)
    toy.assert_same_weights(resumed, whole)


def test_a_scheduler_of_weight_decay_starts_from_the_value_that_attach_kept(schedulers: Any) -> None:
    class Halved(schedulers[0].Scheduler):  # type: ignore[misc]
        def _get_lr(self, t: int) -> list[float]:
            return [value / 2 for value in self.base_values]

    model, optimizer = begin()
    attachment = sw.attach(optimizer, model, sw.BinarizationSchedule(STEPS), sw.CosineDecay(total_steps=STEPS))
    attachment.step = STEPS // 2
    assert optimizer.param_groups[0]["weight_decay"] == pytest.approx(0.025)
    attachment.detach()
    scheduler = Halved(optimizer, param_group_field="weight_decay", t_in_epochs=False)
    assert scheduler.base_values[0] == 0.05

    sw.attach(optimizer, model, sw.BinarizationSchedule(STEPS), scale_weight_decay=False)
    images, labels = toy.images()
    F.cross_entropy(model(images), labels).backward()
    scheduler.step_update(1)
    optimizer.step()
    assert optimizer.param_groups[0]["weight_decay"] == 0.025, "timm's value, untouched"
