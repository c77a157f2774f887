"""What a recipe's network costs: parameters, binary weights and multiply-adds an image, counted without computing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from signwise import datasets
from signwise.layers import binary_layers
from signwise.training.network import build_network
from signwise.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The size of a network.

    Args:
        parameters: numbers that are learned.
        binary_weights: those of them that are deployed as one bit.
        macs: multiply-adds of the convolutions and dense layers, for one image.
    """

    parameters: int
    binary_weights: int
    macs: int


def network_cost(recipe: Recipe) -> Cost:
    """Count a recipe's network on PyTorch's meta device, where tensors have shapes and no contents.

    Example:
        >>> from signwise.training import recipe
        >>> network_cost(recipe("lenet5-mnist"))
        Cost(parameters=431650, binary_weights=425500, macs=2293000)
    """
    dataset = datasets.NAMES[recipe.dataset]
    with torch.device("meta"):
        network = build_network(recipe, len(dataset.classes)).eval()
        image = torch.empty(1, *dataset.image_shape)
    macs = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal macs
        weight = module.weight
        assert isinstance(weight, Tensor)
        # Each output number takes one multiply-add for each weight of its filter.
        macs += output.numel() * math.prod(weight.shape[1:])

    for module in network.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            module.register_forward_hook(count)
    with torch.no_grad():
        network(image)
    return Cost(
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        binary_weights=sum(layer.weight.numel() for _, layer in binary_layers(network)),
        macs=macs,
    )
