"""SGDW against its definition and against PyTorch's SGD where the two must agree; parameter groups."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import signwise as sw


def test_steps_follow_the_definition() -> None:
    generator = np.random.default_rng(1)
    weight = generator.normal(size=7)
    velocity = np.zeros(7)
    parameter = nn.Parameter(torch.tensor(weight))
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


def test_without_decay_it_is_pytorchs_sgd() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
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


def test_decay_is_not_multiplied_by_the_learning_rate() -> None:
    parameter = nn.Parameter(torch.tensor([2.0]))
    optimizer = sw.SGDW([parameter], lr=0.0, weight_decay=0.25)
    parameter.grad = torch.tensor([5.0])
    optimizer.step()
    assert parameter.item() == 1.5


def test_a_saved_state_continues_exactly() -> None:
    torch.manual_seed(0)
    first = nn.Parameter(torch.randn(4))
    optimizer = sw.SGDW([first], lr=0.1, weight_decay=0.01)
    for _ in range(3):
        first.grad = torch.ones(4)
        optimizer.step()
    second = nn.Parameter(first.detach().clone())
    other = sw.SGDW([second], lr=0.5)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for parameter, resumed in ((first, optimizer), (second, other)):
        parameter.grad = torch.ones(4)
        resumed.step()
    assert torch.equal(first, second)


def test_parameters_without_a_gradient_stay_and_a_closure_is_called() -> None:
    still, moving = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = sw.SGDW([still, moving], lr=0.1, weight_decay=0.5)

    def closure() -> float:
        optimizer.zero_grad()
        loss = moving.square().sum()
        loss.backward()
        return float(loss.item())

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
def test_optimizer_settings_outside_their_range_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(sw.SignwiseError, match=message):
        sw.SGDW([nn.Parameter(torch.ones(1))], **settings)


def make_model() -> Any:  # nn.Sequential, whose items mypy does not know
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 1)),
        nn.Flatten(),
        nn.Linear(16, 8),
        nn.Linear(8, 2),
    )


def test_decay_reaches_weights_and_leaves_biases_and_norms_alone() -> None:
    model = make_model()
    sw.binarize_(model)
    decayed, spared = sw.param_groups(model, weight_decay=1e-3)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert decayed["weight_decay"] == 1e-3 and spared["weight_decay"] == 0
    assert {names[id(p)] for p in decayed["params"]} == {"0.weight", "2.0.weight", "2.1.weight", "4.weight", "5.weight"}
    assert {names[id(p)] for p in spared["params"]} == set(names.values()) - {names[id(p)] for p in decayed["params"]}


def test_frozen_parameters_are_left_out_of_the_groups() -> None:
    model = make_model()
    model[0].weight.requires_grad_(False)
    listed = [parameter for group in sw.param_groups(model, 0.1) for parameter in group["params"]]
    assert all(parameter is not model[0].weight for parameter in listed)


def test_nesterovs_momentum_is_that_of_pytorch() -> None:
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.ones(5)) for _ in range(2))
    mine = sw.SGDW([ours], lr=0.1, momentum=0.85, nesterov=True)
    reference = torch.optim.SGD([theirs], lr=0.1, momentum=0.85, nesterov=True)
    for _ in range(4):
        gradient = torch.randn(5)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        mine.step()
        reference.step()
    torch.testing.assert_close(ours, theirs)


def test_embeddings_tables_and_tokens_do_not_decay() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Parameter(torch.zeros(1, 5, 4))
            self.class_token = nn.Parameter(torch.zeros(1, 1, 4))
            self.embedding = nn.Embedding(8, 4)
            self.attention = nn.MultiheadAttention(4, 2)
            self.norm = nn.LayerNorm((5, 4))
            self.conv = nn.Conv1d(4, 4, 3)
            self.head = nn.Linear(4, 8, bias=False)
            self.head.weight = self.embedding.weight

    model = Model()
    with_decay, without = (group["params"] for group in sw.param_groups(model, 1e-3))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed = [names[id(parameter)] for parameter in with_decay]
    assert decayed == ["attention.in_proj_weight", "attention.out_proj.weight", "conv.weight"]
    assert len(with_decay) + len(without) == len(names)
