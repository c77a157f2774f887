"""The layer that is named is the one where it began."""

from __future__ import annotations

import math

import pytest
import torch
from signwise.training.divergence import divergence, first_bad_layer
from torch import nn


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


IMAGES = torch.ones(3, 4) * torch.arange(1.0, 4.0)[:, None]


def test_a_weight_that_is_not_finite_is_named_with_its_layer() -> None:
    bad = network()
    with torch.no_grad():
        bad[3].weight[0, 0] = math.nan
    assert first_bad_layer(bad, IMAGES) == "the weight of layer 3"


def test_an_output_that_overflows_is_named_before_the_layers_that_inherit_it() -> None:
    bad = network()
    with torch.no_grad():
        bad[0].weight.fill_(3e38)
    assert first_bad_layer(bad, IMAGES) == "the output of layer 0"


def test_bad_images_are_not_blamed_on_a_layer() -> None:
    assert first_bad_layer(network(), IMAGES * math.inf) == "the images themselves"


def test_looking_changes_nothing_and_leaves_no_hook() -> None:
    looked = network()
    before = {name: value.clone() for name, value in looked.state_dict().items()}
    assert first_bad_layer(looked, IMAGES) == "the loss itself"
    assert all(torch.equal(before[name], value) for name, value in looked.state_dict().items())
    assert not any(module._forward_hooks for module in looked.modules())


def test_the_message_has_step_epoch_layer_and_advice() -> None:
    bad = network()
    with torch.no_grad():
        bad[3].bias[0] = math.inf
    message = str(divergence(7, 2, math.nan, bad, IMAGES, 0.5))
    assert message.startswith("the loss is nan at step 7 (epoch 2): the bias of layer 3 is not finite; try a lower")
    assert "--lr, now 0.5" in message


@pytest.mark.parametrize("mode", [True, False])
def test_the_networks_mode_is_kept(mode: bool) -> None:
    looked = network().train(mode)
    first_bad_layer(looked, IMAGES)
    assert looked.training is mode
