"""The paper's models: compiled, they give the outputs of PyTorch's evaluation, in golden bytes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

import signwise as sw
from signwise.compiler import compile  # noqa: A004
from signwise.program import Program
from signwise.program import operations as ops

pytestmark = pytest.mark.slow


def trained(name: str) -> nn.Module:
    """A binary model whose batch norms have statistics of their own, some with negative factors."""
    torch.manual_seed(0)
    model = sw.models.NAMES[name]()
    sw.binarize_(model, skip=sw.last if name == "lenet5" else sw.first_and_last)
    norms = [module for module in model.modules() if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))]
    for norm in norms:
        norm.momentum = 1.0  # one batch sets the statistics, so that activations keep a sane size
    with torch.no_grad():
        model.train()(examples(name, 4))
        for norm in norms:
            assert norm.running_mean is not None and norm.running_var is not None
            norm.running_mean += 0.3 * norm.running_var.sqrt() * torch.randn_like(norm.running_mean)
            norm.running_var *= torch.empty_like(norm.running_var).uniform_(0.5, 2)
            norm.weight.normal_(1, 0.5)
            norm.weight[0] = -0.5  # whatever was drawn: a max pool keeps such a norm behind it
            norm.bias.normal_(0, 0.5)
    return model.eval()


def examples(name: str, count: int) -> Tensor:
    return torch.randn(count, *((1, 28, 28) if name == "lenet5" else (3, 32, 32)))


def close(found: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: float) -> bool:
    return bool(np.abs(found - expected).max() <= tolerance * np.abs(expected).max())


OPERATIONS = {
    "lenet5": {"conv": 2, "maxpool": 2, "flatten": 1, "dense": 2},
    "vgg_small": {"conv": 6, "maxpool": 3, "affine": 3, "flatten": 1, "dense": 1},
    "vgg_fast": {"conv": 7, "maxpool": 4, "affine": 3, "flatten": 1, "dense": 1},
    "resnet18": {"conv": 17, "avgpool": 3, "pad_channels": 3, "globalpool": 1, "dense": 1},
    "resnet20": {"conv": 19, "avgpool": 2, "pad_channels": 2, "globalpool": 1, "dense": 1},
    "wrn28_10": {"conv": 25, "affine": 13, "avgpool": 2, "pad_channels": 3, "globalpool": 1, "dense": 1},
}


LARGE = ("vgg_small", "resnet18", "wrn28_10")


def sizes_marked(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in names]


@pytest.mark.parametrize("name", sizes_marked(OPERATIONS))
def test_a_compiled_model_gives_pytorchs_outputs_in_the_bytes_of_the_summary(name: str) -> None:
    model = trained(name)
    program = compile(model, examples(name, 1))
    images = examples(name, 2)
    with torch.no_grad():
        expected = model(images).numpy()
    found = program.reference(images.numpy())
    assert np.isfinite(expected).all() and close(found, expected, 1e-4)
    assert Counter(operation.kind for operation in program.ops) == OPERATIONS[name]

    data = program.encode()
    assert Program.decode(data).encode() == data
    assert program.nbytes == sw.summary(model).bytes_packed, "the estimate is right for models in order"
    if name in ("resnet18", "wrn28_10"):
        state = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
        assert state / len(data) >= 30, "thirty times smaller than the float state"
    binary = [operation for operation in program.ops if isinstance(operation, ops.Weighted) and operation.bits == 1]
    assert len(binary) == len(list(sw.binary_layers(model)))


@pytest.mark.parametrize("name", sizes_marked(["lenet5", "vgg_small", "resnet20", "resnet18"]))
def test_eight_bit_activations_lose_little(name: str) -> None:
    model = trained(name)
    images = examples(name, 16)
    program = compile(model, examples(name, 1)).quantize(images.numpy())
    for operation in program.ops:
        if isinstance(operation, ops.Weighted) and operation.bits == 1:
            assert program.quantization(operation.inputs[0]) is not None, "every binary layer adds integers"
    fresh = examples(name, 8)
    with torch.no_grad():
        expected = model(fresh).numpy()
    found = program.reference(fresh.numpy())
    # Untrained networks amplify rounding; a wrong scale or sign would leave nothing of the correlation.
    assert np.corrcoef(found.reshape(-1), expected.reshape(-1))[0, 1] > 0.99


def test_raw_pixels_can_be_the_input() -> None:
    model = nn.Sequential(sw.models.Standardize([0.1307], [0.3081]), trained("lenet5")).eval()
    program = compile(model, torch.zeros(1, 1, 28, 28))
    images = torch.randint(0, 256, (3, 1, 28, 28), dtype=torch.uint8)
    with torch.no_grad():
        expected = model(images.float()).numpy()
    assert program.ops[0].kind == "affine"
    assert close(program.reference(images.numpy()), expected, 1e-4)


def filled(model: nn.Module, **how: Any) -> nn.Module:
    """The model, binary, with weights that are the same on every machine: small multiples of powers of two."""
    sw.binarize_(model, **{"method": sw.GroupTransform(), **how})
    rng = np.random.default_rng(0)
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            continue
        if name.endswith("running_var"):
            numbers: Any = 4.0 ** rng.integers(2, 4, tensor.shape)
        elif name.endswith("running_mean"):
            numbers = rng.integers(-8, 9, tensor.shape)
        elif name.endswith("weight") and tensor.dim() == 1:
            rng.integers(-4, 5, tensor.shape)  # drawn and dropped, as when the hashes were recorded
            numbers = rng.choice([0.5, 1.0, 2.0], tensor.shape)
        elif tensor.dim() == 1:
            numbers = rng.integers(-4, 5, tensor.shape) / 4
        else:
            numbers = (2 * rng.integers(0, 8, tensor.shape) - 7) / 8
        tensor.copy_(torch.from_numpy(np.asarray(numbers, np.float32)))
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.eps = 0.0  # so that factors are powers of two
    return model.eval()


def small_model() -> nn.Module:
    """Sums of few terms, exact in float32 in any order: the same scales on every machine. Binary from the input on."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3),
        nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4),
    )  # fmt: skip


GOLDEN: dict[str, tuple[Callable[[], nn.Module], dict[str, Any], tuple[int, ...], dict[str, str]]] = {
    "lenet5": (
        sw.models.lenet5,
        {"skip": sw.last},
        (1, 28, 28),
        {
            "float32": "474ef345828f3a830fccc7fa3cb9cb2af28b23b1b7f69fc7b73f13d98774ecfd",
        },
    ),
    "resnet20": (
        sw.models.resnet20,
        {},
        (3, 32, 32),
        {
            "float32": "334706eb81b6e3db2c2b1c1395ba6085fb77155d76d575397310e875c220adc2",
        },
    ),
    "vgg_small": (
        sw.models.vgg_small,
        {},
        (3, 32, 32),
        {
            "float32": "6137b396939998b698691fef7b6ac7b9c68452d7440b8a49dbe20a358d43e161",
        },
    ),
    "small": (
        small_model,
        {"skip": None},
        (3, 8, 8),
        {
            "float32": "e42f2e8a51d4fa148b0a1f562467e2555043ffdbed88a85728a521be72cafc06",
            "int8": "40fd0e6ab68f1cbf731d645e430f2172519f0d3a9b1fe3e7d36156ffff3835d2",
            "eight bits": "4545c852e20a1812bc480b521af1756b45dd56a132a14f50f5930c62b7d33ac2",
        },
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_compiled_and_quantized_bytes_are_golden(name: str) -> None:
    build, how, shape, expected = GOLDEN[name]
    program = compile(filled(build(), **how), torch.zeros(1, *shape), about={"dataset": "golden"})
    calibration = np.random.default_rng(1).integers(0, 64, (8, *shape)).astype(np.float32) / 4
    made = {
        "float32": lambda: program,
        "int8": lambda: program.quantize(calibration),
        "eight bits": lambda: program.quantize(calibration, six_bit_inputs=False),
    }
    assert {kind: hashlib.sha256(made[kind]().encode()).hexdigest() for kind in expected} == expected
