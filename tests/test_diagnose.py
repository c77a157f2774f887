"""The health of the groups, the flips, and the refusal of weights that are not numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import signwise as sw


def layer_with(
    rows: list[list[float]], method: sw.Method | None = None
) -> Any:  # nn.Sequential, whose items mypy does not know
    model: Any = nn.Sequential(nn.Linear(len(rows[0]), len(rows), bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor(rows))
    sw.binarize_(model, skip=None, method=method or sw.GroupTransform())
    return model


def test_groups_with_fewer_than_two_members_on_a_side_are_degenerate_and_get_no_gradient_there() -> None:
    model = layer_with([[1.0, 2.0, -1.0, -2.0], [1.0, 2.0, 3.0, -1.0], [1.0, 2.0, 3.0, 4.0]])
    (row,) = sw.health(model)
    assert (row.groups, row.degenerate_groups) == (3, 2)
    assert row.positive_fraction == pytest.approx(9 / 12)
    model(torch.randn(5, 4)).square().sum().backward()
    assert abs(float(model[0].weight.grad[1, 3])) < 1e-5
    assert abs(float(model[0].weight.grad[1, 0])) > 1e-3


def test_quantization_error_is_the_distance_from_one() -> None:
    model = layer_with([[0.1, 0.3, -0.2, -0.6]])
    model[0].zeta.fill_(0.0)
    (row,) = sw.health(model)
    # Within each sign, ζ = 0 keeps the distances from the mean: 0.1 and 0.1; 0.2 and 0.2.
    assert row.error_mean == pytest.approx(0.15) and row.error_max == pytest.approx(0.2)
    model[0].zeta.fill_(12.0)
    assert sw.health(model)[0].error_max < 1e-5
    scaled = layer_with([[0.1, 0.3, -0.2, -0.6]], sw.GroupTransform(scale="mean"))
    scaled[0].zeta.fill_(0.0)
    # The targets are ±0.3, so the same distances are larger by 1 / 0.3.
    assert sw.health(scaled)[0].error_mean == pytest.approx(0.15 / 0.3)
    scaled[0].zeta.fill_(12.0)
    assert sw.health(scaled)[0].error_max < 1e-4


def test_health_follows_the_methods_own_groups() -> None:
    model = layer_with([[1.0, 2.0, -1.0, -2.0], [1.0, 2.0, 3.0, 4.0]])
    sw.binarize_(model, skip=None, method=sw.GroupTransform(partition=None))
    assert [(row.groups, row.degenerate_groups) for row in sw.health(model)] == [(1, 0)]
    labels = torch.tensor([[0, 0, 0, 0], [0, 0, 5, 5]])
    sw.binarize_(model, skip=None, method=sw.GroupTransform(partition=labels))
    assert [(row.groups, row.degenerate_groups) for row in sw.health(model)] == [(2, 1)]


def test_flip_ratio_is_the_fraction_of_signs_that_changed() -> None:
    model = layer_with([[1.0, 2.0, -1.0, -2.0], [1.0, 2.0, 3.0, -1.0]])
    before = sw.signs_of(model)
    with torch.no_grad():
        model[0].weight[0, 0] = -1.0
        model[0].weight[1, 3] = 0.5
        model[0].weight[0, 1] = 7.0
    assert sw.flip_ratio(before, sw.signs_of(model)) == {"0": 0.25}
    with pytest.raises(sw.SignwiseError, match="same layers"):
        sw.flip_ratio(before, {})


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_any_parameter_that_is_not_finite_is_named(value: float) -> None:
    model: Any = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    sw.refuse_nonfinite(model)
    with torch.no_grad():
        model[1].bias[2] = value
    with pytest.raises(sw.SignwiseError, match=r"1\.bias holds NaN or infinite"):
        sw.refuse_nonfinite(model)


def test_the_relative_step_is_the_learning_rate_times_the_ratio_of_norms() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    sw.binarize_(model, skip=sw.last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    assert sw.relative_step(model, optimizer) == {}
    model(torch.randn(8, 6)).square().sum().backward()
    weight = model.get_parameter("0.weight")
    assert weight.grad is not None
    expected = 0.3 * float(weight.grad.norm() / weight.detach().norm())
    assert sw.relative_step(model, optimizer) == {"0": pytest.approx(expected, rel=1e-6)}


def test_health_prints_as_a_table_and_stays_a_list() -> None:
    layer = nn.Linear(4, 2)
    layer.weight.data.copy_(torch.tensor([[1.0, 2.0, -1.0, -2.0], [1.0, 2.0, 3.0, -1.0]]))
    model = nn.Sequential(layer)
    sw.binarize_(model, skip=None)
    found = sw.health(model)
    headings, row = (line.split() for line in str(found).splitlines())
    assert headings[:3] == ["layer", "groups", "degenerate"] and row[:5] == ["0", "2", "1", "62.5", "%"]
    assert found[0].degenerate_groups == 1 and len(found) == 1
