"""A step is a function of its number; and it does what the paper's update says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from signwise.training.device_images import to_device
from signwise.training.network import build_network
from signwise.training.saved_state import Progress, capture, restore_
from signwise.training.stepper import Stepper

from signwise.datasets import load
from signwise.training import Options, Recipe
from signwise.training.distributed import World

CPU = torch.device("cpu")


def make(recipe: Recipe, digits: Path, world: World | None = None) -> Stepper:
    images = to_device(load("mnist", digits), recipe, CPU)
    alone = World(rank=0, size=1, device=CPU)
    network = build_network(recipe, 10).train()
    return Stepper(recipe, Options(out=Path("unused")), network, images, world or alone)


def advance(stepper: Stepper, step: int) -> None:
    stepper.prepare(step)
    stepper.forward_backward(*stepper.batch(step))
    stepper.update()


def test_a_batch_does_not_depend_on_the_batches_before_it(small: Recipe, digits: Path) -> None:
    augmented = small.changed(flip=True, translate=2, zoom=0.1)
    straight, jumping = make(augmented, digits), make(augmented, digits)
    batches = [straight.batch(step) for step in range(25)]
    for step in (24, 3, 17):
        images, labels = jumping.batch(step)
        assert torch.equal(images, batches[step][0]) and torch.equal(labels, batches[step][1])
    assert not torch.equal(batches[3][0], make(small, digits).batch(3)[0])


def test_an_epoch_uses_each_image_once_and_images_are_standardized(small: Recipe, digits: Path) -> None:
    stepper = make(small, digits)
    seen = torch.cat([stepper.batch(step)[0] for step in range(stepper.steps_per_epoch)])
    assert len(torch.unique(seen.flatten(1), dim=0)) == len(seen) == 200
    assert abs(float(seen.mean())) < 1e-5 and abs(float(seen.std(correction=0)) - 1) < 1e-5


def test_the_shares_of_two_processes_make_up_the_batch_of_one(small: Recipe, digits: Path) -> None:
    augmented = small.changed(flip=True, translate=2, zoom=0.1)
    images = to_device(load("mnist", digits), augmented, CPU)
    whole, _ = make(augmented, digits).batch(5)
    parts = []
    for rank in (0, 1):
        stepper = make(augmented, digits)
        stepper.world = World(rank=rank, size=2, device=CPU)
        parts.append(stepper.batch(5)[0])
    assert len(images.train_images) == 200 and torch.equal(torch.cat(parts), whole)


def test_one_step_is_the_papers_update_of_every_weight(small: Recipe, digits: Path) -> None:
    stepper = make(small, digits)
    network, step = stepper.network, 30
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    stepper.prepare(step)
    images, labels = stepper.batch(step)
    loss = F.cross_entropy(network(images), labels)
    gradients = dict(zip(before, torch.autograd.grad(loss, list(network.parameters())), strict=True))
    advance(stepper, step)
    # Milestones at 0.1, 0.25, 0.4, 0.55 and 0.7 of the 39.9 steps after the warm-up have been passed.
    factor = 0.3**5
    for name, value in network.named_parameters():
        decay = small.weight_decay * factor if value.dim() > 1 else 0.0
        expected = before[name] * (1 - decay) - small.learning_rate * factor * gradients[name]
        torch.testing.assert_close(value.detach(), expected, rtol=1e-5, atol=1e-7)
    assert float(network.conv1.alpha) == pytest.approx(30 / 36) and float(network.conv1.zeta) == 1


def test_a_state_that_is_captured_and_restored_goes_on_bit_for_bit(small: Recipe, digits: Path) -> None:
    straight, interrupted = make(small, digits), make(small, digits)
    for step in range(6):
        advance(straight, step)
    for step in range(3):
        advance(interrupted, step)
    saved = capture(interrupted, Progress(step=3, best_error=1.5))
    torch.rand(10)
    again = make(small, digits)
    progress = restore_(again, saved)
    assert progress == Progress(step=3, best_error=1.5)
    for step in range(progress.step, 6):
        advance(again, step)
    first, second = capture(straight, progress).tensors, capture(again, progress).tensors
    assert first.keys() == second.keys() and any("momentum" in name for name in first)
    assert all(torch.equal(first[name], second[name]) for name in first)
