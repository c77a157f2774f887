"""The error of a network on test images: of what is deployed, sign(φ), and of the relaxed weights beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import update_bn

from signwise.training.distributed import World

_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Score:
    """How well a network does.

    Args:
        error: wrong answers, in percent.
        loss: mean cross-entropy.
    """

    error: float
    loss: float


@torch.no_grad()
def score(network: nn.Module, images: Tensor, labels: Tensor, world: World) -> Score:
    """Error and loss of a network in evaluation mode, its images shared out among the processes."""
    was_training = network.training
    network.eval()
    totals = torch.zeros(2, device=world.device)
    starts = range(world.rank * _BATCH, len(images), world.size * _BATCH)
    for start in starts:
        answers = network(images[start : start + _BATCH]).float()
        wanted = labels[start : start + _BATCH]
        totals[0] += (answers.argmax(1) != wanted).sum()
        totals[1] += F.cross_entropy(answers, wanted, reduction="sum")
    network.train(was_training)
    errors, loss = world.sum_(totals).tolist()
    return Score(error=100 * errors / len(images), loss=loss / len(images))


class _OnlyNormsTrain(nn.Module):
    """A network whose ``train()`` reaches batch norms alone: they see the outputs of the deployed weights."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def train(self, mode: bool = True) -> _OnlyNormsTrain:
        self.training = mode
        self.network.eval()
        for module in self.network.modules():
            if isinstance(module, _BatchNorm):
                module.train(mode)
        return self

    def forward(self, images: Tensor) -> Tensor:
        answers: Tensor = self.network(images)
        return answers


@contextlib.contextmanager
def reestimated_batch_norm(network: nn.Module, images: Tensor) -> Iterator[None]:
    """Within the block, batch norms hold the statistics of the deployed weights on ``images``, by ``update_bn``.

    The running statistics that training gathered belong to w_α and come back afterwards.
    """
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm)]
    before = [{name: buffer.clone() for name, buffer in norm.named_buffers()} for norm in norms]
    was_training = network.training
    update_bn(torch.split(images, _BATCH), _OnlyNormsTrain(network))
    network.train(was_training)
    try:
        yield
    finally:
        for norm, buffers in zip(norms, before, strict=True):
            for name, buffer in norm.named_buffers():
                buffer.copy_(buffers[name])
