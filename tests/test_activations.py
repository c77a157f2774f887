"""Binary activations: their values, their gradients, and that they train beside binary weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import signwise as sw

POINTS = [-1.5, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("activation", "slopes"),
    [
        (sw.BinaryActivation("approx"), [0.0, 0.0, 1.5, 2.0, 1.0, 0.0, 0.0]),
        (sw.BinaryActivation("clipped"), [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
        (sw.BinaryActivation("learned", channels=1), [0.0, 0.0, 1.5, 2.0, 1.0, 0.0, 0.0]),
    ],
)
def test_sign_forward_and_the_named_slope_backward(activation: nn.Module, slopes: list[float]) -> None:
    x = torch.tensor(POINTS).view(-1, 1).requires_grad_()
    y = activation(x)
    assert y.flatten().tolist() == [-1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0]
    (3 * y).sum().backward()
    assert x.grad is not None
    assert x.grad.flatten().tolist() == pytest.approx([3 * slope for slope in slopes])


def test_a_learned_shift_moves_each_channels_threshold_and_is_trained() -> None:
    activation = sw.BinaryActivation("learned", channels=2)
    assert activation.shift is not None
    with torch.no_grad():
        activation.shift.copy_(torch.tensor([0.5, -0.5]))
    x = torch.tensor([[0.0, 0.0], [-0.75, 0.75]])
    y = activation(x)
    assert y.tolist() == [[1.0, -1.0], [-1.0, 1.0]]
    y.sum().backward()
    # max(0, 2 - 2|x + b|), summed over the batch
    assert activation.shift.grad is not None
    assert activation.shift.grad.tolist() == pytest.approx([1.0 + 1.5, 1.0 + 1.5])


def test_shifted_prelu_is_its_formula() -> None:
    layer = sw.ShiftedPReLU(2)
    with torch.no_grad():
        layer.shift_before.copy_(torch.tensor([1.0, -1.0]))
        layer.shift_after.copy_(torch.tensor([0.5, 0.0]))
    x = torch.tensor([[-3.0, 2.0]])
    torch.testing.assert_close(layer(x), torch.tensor([[0.25 * -2.0 + 0.5, 1.0]]))


def test_kinds_and_channels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(sw.SignwiseError, match="kind must be"):
        sw.BinaryActivation("tanh")  # type: ignore[arg-type]
    with pytest.raises(sw.SignwiseError, match="channels belongs to kind='learned'"):
        sw.BinaryActivation("learned")
    with pytest.raises(sw.SignwiseError, match="channels belongs to kind='learned'"):
        sw.BinaryActivation("approx", channels=3)


def test_a_network_with_binary_weights_and_activations_learns() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(512, 16)
    targets = (inputs @ torch.randn(16, 4).sign()).argmax(1)
    model = nn.Sequential(
        nn.Linear(16, 128), nn.BatchNorm1d(128), sw.BinaryActivation(),
        nn.Linear(128, 128), nn.BatchNorm1d(128), sw.BinaryActivation(), nn.Linear(128, 4),
    )  # fmt: skip
    sw.binarize_(model, method=sw.GroupTransform(scale="mean"))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    schedule = sw.BinarizationSchedule(200, t_alpha=0.5)
    for step in range(200):
        schedule.apply_(model, step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    model.eval()
    hidden = model[:6](inputs)
    assert set(hidden.unique().tolist()) == {-1.0, 1.0}
    assert float((model(inputs).argmax(1) == targets).float().mean()) > 0.8  # chance is 0.25


def test_the_operator_compiles_and_exports() -> None:
    model = nn.Sequential(nn.Linear(4, 4), sw.BinaryActivation()).eval()
    x = torch.randn(3, 4)
    program = torch.export.export(model, (x,))
    torch.testing.assert_close(program.module()(x), model(x))
    torch.library.opcheck(torch.ops.signwise.binary_activation.default, (x.requires_grad_(), True))
