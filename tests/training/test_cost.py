"""The numbers of the table of recipes."""

from __future__ import annotations

import pytest

from signwise.training import get_recipe
from signwise.training.cost import network_cost

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
