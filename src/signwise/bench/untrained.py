"""The networks of the paper with random weights: speed, memory and size do not depend on what was learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from signwise import compiler, models
from signwise.bench.network import Network, random_input
from signwise.convert import binarize_, first_and_last, last
from signwise.runtime.session import Session
from signwise.schedule import BinarizationSchedule

INPUT_SHAPES = {"lenet5": (1, 28, 28)}
_CIFAR_SHAPE = (3, 32, 32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Untrained:
    """A network to measure, and what its PyTorch model tells about it.

    Args:
        network: the compiled forms.
        state_dict_bytes: of the float32 model's ``state_dict``.
        difference: between the answers of the packed file and those of the PyTorch model with weights sign(φ), the
            largest, relative to the largest answer.
    """

    network: Network
    state_dict_bytes: int
    difference: float


def untrained(name: str) -> Untrained:
    """One of :data:`signwise.models.NAMES` with binary random weights and batch-norm statistics that fit them.

    Args:
        name: of the network; its input are raw pixels.
    """
    torch.manual_seed(0)
    shape = INPUT_SHAPES.get(name, _CIFAR_SHAPE)
    bare = models.NAMES[name]()
    state_dict_bytes = _float_bytes(bare)
    binarize_(bare, skip=last if name == "lenet5" else first_and_last)
    model = nn.Sequential(models.Standardize([0.5] * shape[0], [0.25] * shape[0]), bare)
    _fit_statistics(model, shape)
    return _compiled(model, shape, state_dict_bytes)


def dense(size: int) -> Untrained:
    """One binary dense layer, ``size`` inputs and outputs."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(size, size, bias=False))
    state_dict_bytes = _float_bytes(model)
    binarize_(model, skip=())
    return _compiled(model.eval(), (size,), state_dict_bytes)


def _float_bytes(model: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in model.state_dict().values() if tensor.is_floating_point())


def _fit_statistics(model: nn.Module, shape: tuple[int, ...]) -> None:
    """One batch through the network with binary weights, whose statistics become those of the batch norm."""
    BinarizationSchedule(total_steps=1).apply_(model, 1)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randint(0, 256, (8, *shape)).float())
    model.eval()


def _compiled(model: nn.Module, shape: tuple[int, ...], state_dict_bytes: int) -> Untrained:
    zeros = torch.zeros(1, *shape)
    program = compiler.compile(model, zeros)
    examples = random_input(program, 4)
    quantized = compiler.compile(model, zeros, activations="int8", calibrate=examples)
    network = Network(float32=program, int8=quantized, examples=examples)
    with torch.inference_mode():
        expected = model(torch.from_numpy(examples)).numpy()
    difference = float(np.abs(Session(program)(examples) - expected).max() / np.abs(expected).max())
    return Untrained(network=network, state_dict_bytes=state_dict_bytes, difference=difference)
