"""What is evaluated is what is deployed, and costs are the numbers of the table of recipes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import signwise as sw
from signwise.training import get_recipe
from signwise.training.data import Split
from signwise.training.distributed import World
from signwise.training.evaluate import network_cost, reestimated_batch_norm, score

ALONE = World(rank=0, size=1, device=torch.device("cpu"))

# Filters of 3x3 weights: (side of the image, pairs of input and output channels), counted by hand.
VGG_SMALL = (32, 3 * 128 + 128 * 128), (16, 128 * 256 + 256 * 256), (8, 256 * 512 + 512 * 512)
RESNET18 = (
    (32, 3 * 64 + 4 * 64 * 64),
    (16, 64 * 128 + 3 * 128 * 128),
    (8, 128 * 256 + 3 * 256 * 256),
    (4, 256 * 512 + 3 * 512 * 512),
)
WRN28_10 = (
    (32, 3 * 64 + 64 * 160 + 7 * 160 * 160),
    (16, 160 * 320 + 7 * 320 * 320),
    (8, 320 * 640 + 7 * 640 * 640),
)


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    sw.binarize_(model, skip=sw.last)
    return model


def test_the_score_belongs_to_the_signs_whatever_the_batch_size() -> None:
    model, images, labels = make_model(), torch.randn(1203, 6), torch.randint(0, 3, (1203,))
    model.train()
    found = score(model, Split(images, labels), ALONE)
    reference: Any = make_model().eval()
    with torch.no_grad():
        signs = torch.where(reference[0].weight > 0, 1.0, -1.0)
        hidden = F.relu(reference[1](F.linear(images, signs, reference[0].bias)))
        outputs = reference[3](hidden)
    assert found.error == 100 * int((outputs.argmax(1) != labels).sum()) / 1203
    assert abs(found.loss - float(F.cross_entropy(outputs, labels))) < 1e-5
    assert model.training


def test_re_estimated_statistics_belong_to_the_deployed_outputs_and_are_taken_back() -> None:
    model, images = make_model(), torch.randn(1200, 6)
    norm = model[1]
    assert isinstance(norm, nn.BatchNorm1d)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with reestimated_batch_norm(model, images):
        assert model.training and norm.running_mean is not None and norm.running_var is not None
        outputs = model[0].eval()(images)
        model[0].train()
        # update_bn averages over batches of 500, 500 and 200, each with the same weight.
        means = torch.stack([part.mean(0) for part in torch.split(outputs, 500)]).mean(0)
        torch.testing.assert_close(norm.running_mean, means)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def three_by_three(stages: tuple[tuple[int, int], ...]) -> int:
    return sum(side * side * 9 * pairs for side, pairs in stages)


@pytest.mark.parametrize(
    ("name", "binary_weights", "macs"),
    [
        ("lenet5-mnist", 425_500, 24 * 24 * 20 * 25 + 8 * 8 * 50 * 500 + 800 * 500 + 500 * 10),
        ("vgg_small-cifar10", 4_571_136, three_by_three(VGG_SMALL) + 8192 * 10),
        ("resnet18-cifar100", 10_985_472, three_by_three(RESNET18) + 512 * 100),
        ("wrn28_10-cifar10", 36_264_960, three_by_three(WRN28_10) + 640 * 10),
    ],
)
def test_costs_are_those_counted_by_hand(name: str, binary_weights: int, macs: int) -> None:
    cost = network_cost(get_recipe(name))
    assert (cost.binary_weights, cost.macs) == (binary_weights, macs)
    assert network_cost(get_recipe(name, bits=32)).binary_weights == 0
