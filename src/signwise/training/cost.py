"""What a recipe's model costs: parameters, binary weights and multiply-adds per image, counted without computing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from signwise import datasets
from signwise.layers import binary_layers
from signwise.training.recipe import Recipe
from signwise.training.step import build_model


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The size of a model.

    Args:
        parameters: learned numbers.
        binary_weights: parameters deployed as one bit.
        macs: multiply-adds of the convolutions and dense layers, for one image.
    """

    parameters: int
    binary_weights: int
    macs: int


def network_cost(recipe: Recipe) -> Cost:
    """Count a recipe's model on PyTorch's meta device, where tensors have shapes and no contents.

    Example:
        >>> from signwise.training import get_recipe
        >>> network_cost(get_recipe("lenet5-mnist"))
        Cost(parameters=431650, binary_weights=425500, macs=2293000)
    """
    dataset = datasets.DATASETS[recipe.dataset]
    with torch.device("meta"):
        model = build_model(recipe, len(dataset.classes)).eval()
        image = torch.empty(1, *dataset.image_shape)
    macs = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal macs
        weight = module.weight
        assert isinstance(weight, Tensor)
        # Each output takes one multiply-add per weight of its filter.
        macs += output.numel() * math.prod(weight.shape[1:])

    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            module.register_forward_hook(count)
    with torch.no_grad():
        model(image)
    return Cost(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        binary_weights=sum(layer.weight.numel() for _, layer in binary_layers(model)),
        macs=macs,
    )
