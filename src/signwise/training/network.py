"""A recipe's network, its optimizer and its schedules."""

from __future__ import annotations

import difflib

import torch
from torch import nn

from signwise import models
from signwise.convert import Skip, binarize_, first_and_last, last, param_groups
from signwise.errors import SignwiseError
from signwise.methods import BinaryConnect, GroupTransform, Method, ScaledSign, StraightThrough
from signwise.optim import SGDW
from signwise.schedule import BinarizationSchedule, StepDecay
from signwise.training.order import derived_seed
from signwise.training.recipe import Recipe

_SKIPS: dict[str, Skip] = {"first_and_last": first_and_last, "last": last, "none": None}
_METHODS: dict[str, type[Method]] = {
    "group_transform": GroupTransform,
    "binary_connect": BinaryConnect,
    "scaled_sign": ScaledSign,
    "straight_through": StraightThrough,
}


def build_network(recipe: Recipe, num_classes: int) -> nn.Module:
    """The recipe's network with its initial weights, binary where the recipe says so.

    The initialization is PyTorch's own, drawn from the recipe's seed on the CPU, so that it is the same everywhere.
    """
    factory = models.NAMES.get(recipe.model)
    if factory is None:
        nearest = difflib.get_close_matches(recipe.model, models.NAMES, n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(models.NAMES)}"
        raise SignwiseError(f"there is no network {recipe.model!r}: {hint}")
    torch.manual_seed(derived_seed(recipe.seed, "initialization", 0))
    network = factory(num_classes=num_classes)
    if recipe.bits == 1:
        binarize_(network, skip=_SKIPS[recipe.skip], method=_METHODS[recipe.method]())
    return network


def build_optimizer(recipe: Recipe, network: nn.Module) -> SGDW:
    """SGD with momentum and decoupled weight decay; biases and norms are not decayed."""
    groups = param_groups(network, weight_decay=recipe.weight_decay)
    return SGDW(groups, lr=recipe.learning_rate, momentum=recipe.momentum)


def learning_schedule(recipe: Recipe, steps_per_epoch: int) -> StepDecay:
    """The factors on learning rate and weight decay."""
    return StepDecay(
        total_steps=recipe.epochs * steps_per_epoch,
        warmup_steps=round(recipe.warmup_epochs * steps_per_epoch),
        factor=recipe.decay_factor,
        milestones=recipe.decay_at,
    )


def binarization_schedule(recipe: Recipe, steps_per_epoch: int) -> BinarizationSchedule | None:
    """α and ζ, or ``None`` where nothing is binarized."""
    if recipe.t_alpha is None:
        return None
    return BinarizationSchedule(
        recipe.epochs * steps_per_epoch,
        t_alpha=recipe.t_alpha,
        zeta=(recipe.zeta_start, recipe.zeta_end),
        zeta_ramp=recipe.zeta_ramp,
    )
