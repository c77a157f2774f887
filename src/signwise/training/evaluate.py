"""How well a model does, and what it costs.

Error and loss on test images belong to the deployed weights sign(φ), or to the relaxed weights inside ``relaxed``.
Parameters, binary weights and multiply-adds are counted without computing.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import update_bn

from signwise import datasets
from signwise.layers import binary_layers
from signwise.training.data import Split
from signwise.training.distributed import World
from signwise.training.recipe import Recipe
from signwise.training.step import build_model

_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Score:
    """How well a model does.

    Args:
        error: wrong predictions, in percent.
        loss: mean cross-entropy.
    """

    error: float
    loss: float


@torch.no_grad()
def score(model: nn.Module, split: Split, world: World) -> Score:
    """Error and loss of a model in evaluation mode; each process scores a part of the images."""
    images, labels = split
    was_training = model.training
    model.eval()
    totals = torch.zeros(2, device=world.device)
    starts = range(world.rank * _BATCH, len(images), world.size * _BATCH)
    for start in starts:
        outputs = model(images[start : start + _BATCH]).float()
        targets = labels[start : start + _BATCH]
        totals[0] += (outputs.argmax(1) != targets).sum()
        totals[1] += F.cross_entropy(outputs, targets, reduction="sum")
    model.train(was_training)
    errors, loss = world.all_reduce_(totals).tolist()
    return Score(error=100 * errors / len(images), loss=loss / len(images))


class _OnlyNormsTrain(nn.Module):
    """``train()`` reaches batch norms only, so that they see the outputs of the deployed weights."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def train(self, mode: bool = True) -> _OnlyNormsTrain:
        self.training = mode
        self.model.eval()
        for module in self.model.modules():
            if isinstance(module, _BatchNorm):
                module.train(mode)
        return self

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.model(images)
        return outputs


@contextlib.contextmanager
def reestimated_batch_norm(model: nn.Module, images: Tensor) -> Iterator[None]:
    """Inside the block, batch norms hold the statistics of the deployed weights on ``images``, from ``update_bn``.

    The running statistics of training belong to w_α; they are restored afterwards.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    before = [{name: buffer.clone() for name, buffer in norm.named_buffers()} for norm in norms]
    was_training = model.training
    update_bn(torch.split(images, _BATCH), _OnlyNormsTrain(model))
    model.train(was_training)
    try:
        yield
    finally:
        for norm, buffers in zip(norms, before, strict=True):
            for name, buffer in norm.named_buffers():
                buffer.copy_(buffers[name])


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
    return Cost(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        binary_weights=sum(layer.weight.numel() for _, layer in binary_layers(model)),
        macs=multiply_adds(model, image),
    )


def multiply_adds(model: nn.Module, image: Tensor) -> int:
    """The multiply-adds of a model's convolutions and dense layers for a batch of one image; it runs the model once."""
    macs = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal macs
        weight = module.weight
        assert isinstance(weight, Tensor)
        # Each output takes one multiply-add per weight of its filter.
        macs += output.numel() * math.prod(weight.shape[1:])

    hooks = [
        module.register_forward_hook(count) for module in model.modules() if isinstance(module, (nn.Linear, nn.Conv2d))
    ]
    was_training = model.training
    try:
        with torch.no_grad():
            model.eval()(image)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return macs
