"""A step is a function of its number; and it does what the paper's update says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from signwise.datasets import load
from signwise.errors import SignwiseError
from signwise.layers import binary_layers
from signwise.training import Options, Recipe
from signwise.training.checkpoint import Progress, capture, restore_
from signwise.training.data import standardized_data
from signwise.training.distributed import World
from signwise.training.step import DivergenceError, Stepper, build_model, first_bad_layer

CPU = torch.device("cpu")


def make(recipe: Recipe, digits: Path, world: World | None = None) -> Stepper:
    data = standardized_data(load("mnist", digits), CPU)
    alone = World(rank=0, size=1, device=CPU)
    return Stepper(recipe, Options(), build_model(recipe, 10).train(), data, world or alone)


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
    whole, _ = make(augmented, digits).batch(5)
    parts = []
    for rank in (0, 1):
        stepper = make(augmented, digits)
        stepper.world = World(rank=rank, size=2, device=CPU)
        parts.append(stepper.batch(5)[0])
    assert torch.equal(torch.cat(parts), whole)


def test_one_step_is_the_papers_update_of_every_weight(small: Recipe, digits: Path) -> None:
    stepper = make(small, digits)
    model, step = stepper.model, 30
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    stepper.apply_schedules(step)
    images, labels = stepper.batch(step)
    loss = F.cross_entropy(model(images), labels)
    gradients = dict(zip(before, torch.autograd.grad(loss, list(model.parameters())), strict=True))
    result = stepper.step(step)
    assert float(result.loss) == pytest.approx(loss.item()) and 0 <= int(result.errors) <= 20
    # Milestones at 0.1, 0.25, 0.4, 0.55 and 0.7 of the 39.9 steps after the warm-up have been passed.
    factor = 0.3**5
    for name, value in model.named_parameters():
        decay = small.weight_decay * factor if value.dim() > 1 else 0.0
        expected = before[name] * (1 - decay) - small.learning_rate * factor * gradients[name]
        torch.testing.assert_close(value.detach(), expected, rtol=1e-5, atol=1e-7)
    (_, layer), *_ = binary_layers(model)
    assert float(layer.alpha) == pytest.approx(30 / 36) and float(layer.zeta) == 1


def test_a_captured_and_restored_state_continues_bit_for_bit(small: Recipe, digits: Path) -> None:
    straight, interrupted = make(small, digits), make(small, digits)
    for step in range(6):
        straight.step(step)
    for step in range(3):
        interrupted.step(step)
    saved = capture(interrupted, Progress(step=3, best_error=1.5))
    torch.rand(10)
    again = make(small, digits)
    progress = restore_(again, saved)
    assert progress == Progress(step=3, best_error=1.5)
    for step in range(progress.step, 6):
        again.step(step)
    first, second = capture(straight, progress).tensors, capture(again, progress).tensors
    assert first.keys() == second.keys() and any("momentum" in name for name in first)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_batch_that_does_not_divide_among_the_processes_is_refused(small: Recipe, digits: Path) -> None:
    with pytest.raises(SignwiseError, match="a batch of 25 images does not divide among 2 processes"):
        make(small.changed(batch_size=25), digits, World(rank=0, size=2, device=CPU))


def test_an_unknown_model_suggests_the_nearest(small: Recipe) -> None:
    with pytest.raises(SignwiseError, match="there is no model 'lenet': did you mean lenet5"):
        build_model(small.changed(model="lenet"), 10)


def small_model() -> Any:  # nn.Sequential, whose items mypy does not know
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


IMAGES = torch.ones(3, 4) * torch.arange(1.0, 4.0)[:, None]


def test_a_weight_that_is_not_finite_is_named_with_its_layer() -> None:
    bad = small_model()
    with torch.no_grad():
        bad[3].weight[0, 0] = math.nan
    assert first_bad_layer(bad, IMAGES) == "the weight of layer 3"


def test_an_output_that_overflows_is_named_before_the_layers_that_inherit_it() -> None:
    bad = small_model()
    with torch.no_grad():
        bad[0].weight.fill_(3e38)
    assert first_bad_layer(bad, IMAGES) == "the output of layer 0"


def test_bad_images_are_not_blamed_on_a_layer() -> None:
    assert first_bad_layer(small_model(), IMAGES * math.inf) == "an input image"


def test_looking_changes_nothing_and_leaves_no_hook() -> None:
    looked = small_model()
    before = {name: value.clone() for name, value in looked.state_dict().items()}
    assert first_bad_layer(looked, IMAGES) == "the loss itself"
    assert all(torch.equal(before[name], value) for name, value in looked.state_dict().items())
    assert not any(module._forward_hooks for module in looked.modules())


def test_a_divergence_names_step_epoch_layer_and_way_out(small: Recipe, digits: Path) -> None:
    stepper = make(small, digits)
    with torch.no_grad():
        dict(stepper.model.named_parameters())["dense1.weight"][0, 0] = math.inf
    with pytest.raises(DivergenceError) as caught:
        stepper.step(12)
    message = str(caught.value)
    assert message.startswith("the loss is nan at step 12 (epoch 2): the weight of layer dense1 is not finite; try")
    assert "a lower `learning_rate` (now 0.01) or more `warmup_epochs`" in message
    with pytest.raises(DivergenceError, match="the weight of layer dense1"):
        stepper.check_weights(11)


@pytest.mark.parametrize("mode", [True, False])
def test_looking_for_the_layer_preserves_the_mode_of_the_model(mode: bool) -> None:
    looked = small_model().train(mode)
    first_bad_layer(looked, IMAGES)
    assert looked.training is mode
