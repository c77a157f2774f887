"""BWNH: layer-wise fitting keeps a trained network's outputs better than taking signs, and solves small cases."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

import signwise as sw
from signwise.bwnh import _scaled_signs


def test_the_fit_is_the_best_of_all_signs_where_all_can_be_tried() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(6, 40, dtype=torch.float64)
    filters = torch.randn(3, 6, dtype=torch.float64)
    gram, target = inputs @ inputs.T, (inputs @ inputs.T @ filters.T).T
    found = _scaled_signs(filters, gram, target, rounds=20, sweeps=10)

    def error(weight: Tensor, row: int) -> float:
        return float(((filters[row] - weight) @ inputs).square().sum())

    for row in range(3):
        best = float("inf")
        for signs in itertools.product((-1.0, 1.0), repeat=6):
            b = torch.tensor(signs, dtype=torch.float64)
            a = (b @ target[row]) / (b @ gram @ b)
            best = min(best, error(a.clamp(min=0) * b, row))
        assert found[row].abs().unique().numel() == 1
        assert error(found[row], row) <= 1.25 * best  # coordinate descent may stop in a local minimum
        plain = filters[row].abs().mean() * filters[row].sign()
        assert error(found[row], row) <= error(plain, row)


class Classifier(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(2, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1, groups=2, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * 36, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4),
        )  # fmt: skip


def test_a_trained_network_keeps_more_of_its_accuracy_than_by_signs_alone() -> None:
    torch.manual_seed(0)
    images = torch.randn(512, 2, 6, 6)
    targets = (images.flatten(1) @ torch.randn(72, 4)).argmax(1)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), targets).backward()
        optimizer.step()
    state = {name: value.clone() for name, value in model.state_dict().items()}

    def accuracy() -> float:
        with torch.no_grad():
            return float((model.eval()(images).argmax(1) == targets).float().mean())

    trained = accuracy()
    batches = list(images.split(128))
    report = sw.bwnh_(model, batches)
    fitted = accuracy()
    assert report.binary_weights == 16 * 8 * 9 + 16 * 36 * 32
    by_signs = Classifier()
    by_signs.load_state_dict(state)
    sw.binarize_(by_signs, method=sw.MeanSign())
    torch.optim.swa_utils.update_bn(batches, by_signs)
    model = by_signs
    assert trained > 0.95 and fitted > accuracy() and fitted > 0.8


def test_no_batches_and_unknown_layers_are_refused_by_name() -> None:
    with pytest.raises(sw.SignwiseError, match="at least one batch"):
        sw.bwnh_(nn.Sequential(nn.Linear(2, 2)), [])
    model = nn.Sequential(nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3))
    with pytest.raises(sw.SignwiseError, match="1: bwnh_ fits linear layers"):
        sw.bwnh_(model, [torch.randn(1, 2, 9)])
