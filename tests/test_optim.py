"""SGDW against its definition, and against PyTorch's SGD where the two must agree."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import signwise as sw


def test_steps_follow_the_definition():
    generator = np.random.default_rng(1)
    weight = generator.normal(size=7)
    velocity = np.zeros(7)
    parameter = torch.nn.Parameter(torch.tensor(weight))
    optimizer = sw.SGDW([parameter], lr=0.1, momentum=0.8, weight_decay=0.02)
    for step in range(6):
        rate, decay = 0.1 / (step + 1), 0.02 / (step + 1)
        optimizer.param_groups[0].update(lr=rate, weight_decay=decay)
        gradient = generator.normal(size=7)
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        velocity = 0.8 * velocity + gradient
        weight = weight - rate * velocity - decay * weight
        np.testing.assert_allclose(parameter.detach(), weight, rtol=1e-12)


def test_without_decay_it_is_pytorchs_sgd():
    torch.manual_seed(0)
    ours, theirs = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    pairs = [(ours, sw.SGDW(ours.parameters(), lr=0.05)), (theirs, torch.optim.SGD(theirs.parameters(), 0.05, 0.9))]
    inputs = torch.randn(8, 5)
    for _ in range(5):
        for layer, optimizer in pairs:
            optimizer.zero_grad()
            layer(inputs).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight)
    torch.testing.assert_close(ours.bias, theirs.bias)


def test_decay_is_not_multiplied_by_the_learning_rate():
    parameter = torch.nn.Parameter(torch.tensor([2.0]))
    optimizer = sw.SGDW([parameter], lr=0.0, weight_decay=0.25)
    parameter.grad = torch.tensor([5.0])
    optimizer.step()
    assert parameter.item() == 1.5


def test_a_saved_state_continues_exactly():
    torch.manual_seed(0)
    first = torch.nn.Parameter(torch.randn(4))
    optimizer = sw.SGDW([first], lr=0.1, weight_decay=0.01)
    for _ in range(3):
        first.grad = torch.ones(4)
        optimizer.step()
    second = torch.nn.Parameter(first.detach().clone())
    other = sw.SGDW([second], lr=0.5)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for parameter, resumed in ((first, optimizer), (second, other)):
        parameter.grad = torch.ones(4)
        resumed.step()
    assert torch.equal(first, second)


def test_parameters_without_a_gradient_stay_and_a_closure_is_called():
    still, moving = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = sw.SGDW([still, moving], lr=0.1, weight_decay=0.5)

    def closure():
        optimizer.zero_grad()
        loss = moving.square().sum()
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) == 2.0
    assert still.tolist() == [1.0, 1.0] and moving.tolist() == pytest.approx([0.3, 0.3])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": -1}, "lr must be"),
        ({"lr": math.inf}, "lr must be"),
        ({"lr": 0.1, "momentum": 1.0}, "momentum must be"),
        ({"lr": 0.1, "weight_decay": 1.0}, "weight_decay must be"),
    ],
)
def test_settings_outside_their_range_are_refused_by_name(settings, message):
    with pytest.raises(sw.SignwiseError, match=message):
        sw.SGDW([torch.nn.Parameter(torch.ones(1))], **settings)
