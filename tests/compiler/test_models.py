"""The compiled networks of the paper answer as PyTorch's evaluation of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

import signwise as sw
from signwise.compiler import compile  # noqa: A004
from signwise.program import operations as ops
from signwise.program import reference
from signwise.program.file import decode, encode


def trained(name):
    """A binary network whose batch norms have statistics of their own, some with negative factors."""
    torch.manual_seed(0)
    model = sw.models.NAMES[name]()
    sw.binarize_(model, skip=sw.last if name == "lenet5" else sw.first_and_last)
    norms = [module for module in model.modules() if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))]
    for norm in norms:
        norm.momentum = 1.0  # one batch sets the statistics, so that activations keep a sane size
    with torch.no_grad():
        model.train()(examples(name, 4))
        for norm in norms:
            norm.running_mean += 0.3 * norm.running_var.sqrt() * torch.randn_like(norm.running_mean)
            norm.running_var *= torch.empty_like(norm.running_var).uniform_(0.5, 2)
            norm.weight.normal_(1, 0.5)
            norm.bias.normal_(0, 0.5)
    return model.eval()


def examples(name, count):
    return torch.randn(count, *((1, 28, 28) if name == "lenet5" else (3, 32, 32)))


def close(found, expected, tolerance):
    return np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


OPERATIONS = {
    "lenet5": {"conv": 2, "maxpool": 2, "flatten": 1, "dense": 2},
    "vgg_small": {"conv": 6, "maxpool": 3, "affine": 3, "flatten": 1, "dense": 1},
    "resnet18": {"conv": 17, "avgpool": 3, "pad_channels": 3, "globalpool": 1, "dense": 1},
    "resnet20": {"conv": 19, "avgpool": 2, "pad_channels": 2, "globalpool": 1, "dense": 1},
    "wrn28_10": {"conv": 25, "affine": 13, "avgpool": 2, "pad_channels": 3, "globalpool": 1, "dense": 1},
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_compiled_network_answers_as_pytorch_in_the_bytes_of_the_summary(name):
    model = trained(name)
    program = compile(model, examples(name, 1))
    images = examples(name, 2)
    with torch.no_grad():
        expected = model(images).numpy()
    found = reference.run(program, images.numpy())
    assert np.isfinite(expected).all() and close(found, expected, 1e-4)
    assert Counter(operation.kind for operation in program.ops) == OPERATIONS[name]

    data = encode(program)
    assert encode(decode(data)) == data
    assert program.nbytes == sw.summary(model).bytes_packed
    if name in ("resnet18", "wrn28_10"):
        state = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
        assert state / len(data) >= 30, "thirty times smaller than the float state"
    binary = [operation for operation in program.ops if isinstance(operation, ops.Weighted) and operation.bits == 1]
    assert len(binary) == len(list(sw.binary_layers(model)))


@pytest.mark.parametrize("name", ["lenet5", "vgg_small", "resnet20", "resnet18"])
def test_eight_bit_activations_lose_little(name):
    model = trained(name)
    images = examples(name, 16)
    program = compile(model, examples(name, 1), "int8", calibrate=images)
    for operation in program.ops:
        if isinstance(operation, ops.Weighted) and operation.bits == 1:
            assert program.quantization(operation.inputs[0]) is not None, "every binary layer adds integers"
    fresh = examples(name, 8)
    with torch.no_grad():
        expected = model(fresh).numpy()
    found = reference.run(program, fresh.numpy())
    # Untrained networks amplify rounding; a wrong scale or sign would leave nothing of the correlation.
    assert np.corrcoef(found.reshape(-1), expected.reshape(-1))[0, 1] > 0.99


def test_raw_pixels_can_be_the_input():
    model = nn.Sequential(sw.models.Standardize([0.1307], [0.3081]), trained("lenet5")).eval()
    program = compile(model, torch.zeros(1, 1, 28, 28))
    images = torch.randint(0, 256, (3, 1, 28, 28), dtype=torch.uint8)
    with torch.no_grad():
        expected = model(images.float()).numpy()
    assert program.ops[0].kind == "affine"
    assert close(reference.run(program, images.numpy()), expected, 1e-4)
