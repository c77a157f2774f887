"""The bytes that summary promises are the bytes of the packed file."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import signwise as sw

NETWORKS = {
    "lenet5": ((1, 28, 28), sw.last),
    "vgg_small": ((3, 32, 32), sw.first_and_last),
    "resnet18": ((3, 32, 32), sw.first_and_last),
    "resnet20": ((3, 32, 32), sw.first_and_last),
    "wrn28_10": ((3, 32, 32), sw.first_and_last),
}


def file_bytes(model: nn.Module, shape: tuple[int, ...]) -> int:
    program = sw.compile(model.eval(), torch.zeros(1, *shape))
    return sum(tensor.nbytes for tensor in program.tensors.values())


@pytest.mark.parametrize("name", list(NETWORKS))
def test_packed_bytes_of_the_papers_networks_are_those_in_the_file(name):
    shape, skip = NETWORKS[name]
    model = sw.models.NAMES[name]()
    report = sw.binarize_(model, skip=skip)
    sizes = sw.summary(model)
    assert sizes.bytes_packed == file_bytes(model, shape)
    assert sizes.binary_weights == report.binary_weights
    state = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    assert sizes.bytes_now == state


@pytest.mark.parametrize("name", ["resnet18", "wrn28_10"])
def test_the_deep_networks_become_thirty_times_smaller_on_disk(name, tmp_path):
    shape, skip = NETWORKS[name]
    model = sw.models.NAMES[name]()
    sw.binarize_(model, skip=skip)
    path = tmp_path / "net.sw"
    sw.compile(model.eval(), torch.zeros(1, *shape)).save(path)
    assert sw.summary(model).bytes_now / path.stat().st_size >= 30


@pytest.mark.parametrize("method", [sw.GroupTransform(), sw.ScaledSign()])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_scales_and_biases_count_once_with_or_without_a_norm(method, bias, norm):
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 5), (5, 7), (7, 4)):
        layers.append(nn.Conv2d(inputs, outputs, 3, bias=bias))
        layers += [nn.BatchNorm2d(outputs)] if norm else []
        layers.append(nn.ReLU())
    model = nn.Sequential(*layers)
    sw.binarize_(model, method=method)
    assert sw.summary(model).bytes_packed == file_bytes(model, (3, 12, 12))


def test_the_table_has_every_layer_and_the_total():
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    sw.binarize_(model, skip=sw.last)
    text = str(sw.summary(model))
    assert "BinaryLinear" in text and "BatchNorm1d" in text
    assert "4,096 of 4,938 weights take one bit" in text
