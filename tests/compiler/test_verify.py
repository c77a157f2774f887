"""compile runs what it made and compares before it returns."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

import signwise as sw
from signwise.compiler import translate

INPUTS = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


def dense_model() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    sw.binarize_(model)
    return model


def data_parallel(model: nn.Module) -> nn.Module:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29519"}
    dist.init_process_group("gloo", rank=0, world_size=1)
    return nn.parallel.DistributedDataParallel(model)


WRAPPERS: dict[str, Callable[[nn.Module], Any]] = {
    "DataParallel": nn.DataParallel,
    "DDP": data_parallel,
    "torch.compile": torch.compile,
    "AveragedModel": AveragedModel,
    "both": lambda model: nn.DataParallel(AveragedModel(model)),
}


@pytest.mark.parametrize("wrapper", list(WRAPPERS))
def test_a_wrapped_model_compiles_to_the_program_of_the_model_inside(wrapper: str) -> None:
    model = dense_model().eval()
    try:
        program = sw.compile(WRAPPERS[wrapper](model), INPUTS)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    with torch.no_grad():
        np.testing.assert_allclose(program(INPUTS.numpy()), model(INPUTS).numpy(), rtol=1e-4, atol=1e-4)


class Model(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.first, self.middle, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.kind == "reads":
            x = F.linear(x, self.middle.weight, self.middle.bias)
        elif self.kind == "random":
            x = self.middle(x) + torch.rand(8)
        elif self.kind == "batch":
            x = self.middle(x) * (2 if x.shape[0] > 1 else 1)
        elif self.kind == "rounding":
            x = torch.sin(1e8 * self.middle(x))
        return torch.as_tensor(self.last(x))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("reads", r"the model \(Model\) reads the weight of middle without calling the layer"),
        ("random", "gives other outputs when it sees the same input again.*random numbers"),
        ("batch", "outputs for one example depend on the others in the batch or on its size"),
        ("rounding", "rounding alone changes the model's outputs beyond tolerance"),
    ],
)
def test_what_a_program_cannot_repeat_is_refused_by_name(kind: str, message: str) -> None:
    model = Model(kind)
    sw.binarize_(model)
    with pytest.raises(sw.SignwiseError, match=message):
        sw.compile(model, torch.zeros(1, 8))


def test_a_translation_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = translate.TRANSLATIONS["aten.relu.default"]
    monkeypatch.setitem(translate.TRANSLATIONS, "aten.relu.default", lambda call, self: self)  # forgets the ReLU
    assert right is not translate.TRANSLATIONS["aten.relu.default"]
    with pytest.raises(
        sw.SignwiseError, match=r"the program's outputs differ from the model's by up to .*they part at 2"
    ):
        sw.compile(dense_model(), INPUTS)


def test_alpha_below_one_is_named() -> None:
    model = dense_model()
    sw.BinarizationSchedule(100, t_alpha=0.5).apply_(model, 10)
    with pytest.warns(UserWarning, match=r"compile: α is below 1 in 2 \(α = 0\.2\)"):
        sw.compile(model, INPUTS)


def test_standardized_weights_compile() -> None:
    class Standardized(nn.Conv2d):
        def forward(self, input: Tensor) -> Tensor:
            rows = self.weight.reshape(1, self.out_channels, -1)
            weight = F.batch_norm(rows, None, None, training=True).reshape_as(self.weight)
            return F.conv2d(input, weight, self.bias)

    model, inputs = nn.Sequential(Standardized(2, 4, 3), nn.ReLU()).eval(), torch.randn(1, 2, 6, 6)
    program = sw.compile(model, inputs)
    with torch.no_grad():
        np.testing.assert_allclose(program(inputs.numpy()), model(inputs).numpy(), rtol=1e-4, atol=1e-4)
