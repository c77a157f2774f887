"""The choices that the paper leaves to its reader, and what else one could have chosen."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from signwise.convert import binarize_, last
from signwise.training.device_images import DeviceImages
from signwise.training.network import build_network
from signwise.training.order import derived_seed
from signwise.training.recipe import Recipe
from signwise.training.stepper import Stepper

_CLASSES = 10


def _ours(recipe: Recipe) -> nn.Module:
    return build_network(recipe, _CLASSES)


def _unchanged_images(images: DeviceImages) -> DeviceImages:
    return images


def _unchanged_decay(stepper: Stepper) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One answer to a question that the paper leaves open; what is not given is as in the recipes here.

    Args:
        question: what is open.
        answer: what is chosen.
        settings: settings of the recipe to change.
        network: makes the binary network.
        images: changes the standardized images.
        decay: changes where weight decay applies.
    """

    question: str
    answer: str
    settings: dict[str, Any] = field(default_factory=dict)
    network: Callable[[Recipe], nn.Module] = _ours
    images: Callable[[DeviceImages], DeviceImages] = _unchanged_images
    decay: Callable[[Stepper], None] = _unchanged_decay


def _classic_lenet5(recipe: Recipe) -> nn.Module:
    """The layers of the original network of that name: 6 and 16 filters, 120 and 84 neurons."""
    torch.manual_seed(derived_seed(recipe.seed, "initialization", 0))
    network = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 6, 5, padding=2, bias=False),  # 28 -> 28
            norm1=nn.BatchNorm2d(6),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),  # 28 -> 14
            conv2=nn.Conv2d(6, 16, 5, bias=False),  # 14 -> 10
            norm2=nn.BatchNorm2d(16),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),  # 10 -> 5
            flatten=nn.Flatten(),  # (N, 16, 5, 5) -> (N, 400)
            dense1=nn.Linear(400, 120, bias=False),
            norm3=nn.BatchNorm1d(120),
            relu3=nn.ReLU(),
            dense2=nn.Linear(120, 84, bias=False),
            norm4=nn.BatchNorm1d(84),
            relu4=nn.ReLU(),
            dense3=nn.Linear(84, _CLASSES),
        )
    )
    binarize_(network, skip=last)
    return network


def _initialized(initialize: Callable[..., Any]) -> Callable[[Recipe], nn.Module]:
    def build(recipe: Recipe) -> nn.Module:
        network = _ours(recipe)
        for module in network.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                initialize(module.weight)
        return network

    return build


def _plain_pixels(images: DeviceImages) -> DeviceImages:
    """Back to the scale from 0 to 1: standardizing was one affine map, and black is the most frequent pixel."""
    low, high = images.train_images.min(), images.train_images.max()

    def scaled(pixels: torch.Tensor) -> torch.Tensor:
        return (pixels - low) / (high - low)

    return dataclasses.replace(images, train_images=scaled(images.train_images), test_images=scaled(images.test_images))


def _decay_everything(stepper: Stepper) -> None:
    for group in stepper.optimizer.param_groups:
        group["weight_decay"] = stepper.recipe.weight_decay


def choices(recipe: Recipe) -> tuple[Choice, ...]:
    """The choices, ours first.

    Args:
        recipe: the recipe that they change.
    """
    by_rate = recipe.weight_decay * recipe.learning_rate
    return (
        Choice(question="all of them", answer="as in the recipes here"),
        Choice(question="layer list", answer="6 and 16 filters, 120 and 84 neurons", network=_classic_lenet5),
        Choice(question="layer list", answer="first layer in full precision", settings={"skip": "first_and_last"}),
        Choice(question="weight decay", answer="on biases and norms too", decay=_decay_everything),
        Choice(question="weight decay", answer="times the learning rate", settings={"weight_decay": by_rate}),
        Choice(question="weight decay", answer="none", settings={"weight_decay": 0.0}),
        Choice(question="initialization", answer="Glorot, uniform", network=_initialized(nn.init.xavier_uniform_)),
        Choice(question="initialization", answer="He, normal", network=_initialized(nn.init.kaiming_normal_)),
        Choice(question="input scaling", answer="pixels from 0 to 1", images=_plain_pixels),
    )
