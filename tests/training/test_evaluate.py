"""What is evaluated is what is deployed."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import signwise as sw
from signwise.training.data import Split
from signwise.training.distributed import World
from signwise.training.evaluate import reestimated_batch_norm, score

ALONE = World(rank=0, size=1, device=torch.device("cpu"))


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
