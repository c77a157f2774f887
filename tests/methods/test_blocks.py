"""Scales per block of inputs, constant and learned scales, and three values per weight."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import signwise as sw
from signwise.methods.method import in_blocks
from signwise.program.operations import Dense

# One scale per row or per block of inputs: constant, the mean magnitude, and learned.
METHODS = [sw.GroupTransform(scale=scale, block=block) for scale in (0.25, "mean", "learned") for block in (None, 8)]


def state(method: sw.Method, latent: Tensor, alpha: float, zeta: float) -> dict[str, Tensor]:
    knobs = {"alpha": torch.tensor(alpha).double(), "zeta": torch.tensor(zeta).double()}
    return knobs | method.extras(latent)


def test_a_block_is_transformed_as_a_filter_of_its_own() -> None:
    latent = torch.randn(3, 32, dtype=torch.float64)
    method = sw.GroupTransform(scale="mean", block=8)
    found = method.weight(latent, state(method, latent, 0.7, 1.5))
    whole = sw.GroupTransform(scale="mean")
    rows = latent.reshape(12, 8)
    expected = whole.weight(rows, state(whole, rows, 0.7, 1.5)).reshape(3, 32)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("method", [sw.GroupTransform(scale="mean", block=8), sw.MeanSign(block=8)])
def test_the_deployed_scale_is_the_mean_of_each_block(method: sw.Method) -> None:
    latent = torch.randn(2, 16, dtype=torch.float64)
    deployed = method.deploy(latent, state(method, latent, 1.0, 12.0))
    assert deployed.scale is not None and deployed.scale.shape == (2, 2)
    for row in range(2):
        for block in range(2):
            part = slice(8 * block, 8 * block + 8)
            expected = latent[row, part].abs().mean() * latent[row, part].sign()
            torch.testing.assert_close(deployed.dense()[row, part], expected)


@pytest.mark.parametrize("block", [None, 8])
def test_the_gradient_to_a_learned_scale_is_exact(block: int | None) -> None:
    method = sw.GroupTransform(scale="learned", block=block)
    latent = torch.randn(2, 16, dtype=torch.float64).requires_grad_()
    values = state(method, latent.detach(), 0.6, 1.0)
    magnitude = values["magnitude"]

    def weight(latent: Tensor, magnitude: Tensor) -> Tensor:
        return method.weight(latent, {**values, "magnitude": magnitude})

    assert torch.autograd.gradcheck(weight, (latent, magnitude))


def test_a_learned_scale_starts_at_the_mean_magnitude_and_trains() -> None:
    torch.manual_seed(0)
    layer = sw.BinaryLinear(16, 4, bias=False, method=sw.GroupTransform(scale="learned"))
    magnitude = layer.magnitude
    assert isinstance(magnitude, nn.Parameter)
    torch.testing.assert_close(magnitude.detach(), layer.weight.detach().abs().mean(1))
    layer(torch.ones(1, 16)).sum().backward()
    assert magnitude.grad is not None and bool((magnitude.grad != 0).any())


def test_a_constant_scale_is_deployed() -> None:
    latent = torch.randn(2, 16)
    method = sw.GroupTransform(scale=0.25)
    deployed = method.deploy(latent, {})
    torch.testing.assert_close(deployed.dense(), 0.25 * sw.binary_sign(latent))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), "median", True])
def test_an_impossible_scale_is_refused(scale: object) -> None:
    with pytest.raises(sw.SignwiseError, match="scale must be"):
        sw.GroupTransform(scale=scale)  # type: ignore[arg-type]  # what a user might pass


@pytest.mark.parametrize("block", [0, 4, 12, 8.0])
def test_a_block_that_is_no_whole_number_of_bytes_is_refused(block: object) -> None:
    with pytest.raises(sw.SignwiseError, match="multiple of 8 inputs"):
        sw.GroupTransform(block=block)  # type: ignore[arg-type]  # what a user might pass
    with pytest.raises(sw.SignwiseError, match="multiple of 8 inputs"):
        sw.MeanSign(block=block)  # type: ignore[arg-type]  # what a user might pass


def test_weights_that_are_no_whole_blocks_are_refused() -> None:
    with pytest.raises(sw.SignwiseError, match=r"multiple of it, got a weight of shape \(2, 12\)"):
        in_blocks(torch.zeros(2, 12), 8)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_packed_layer_computes_with_every_kind_of_scale(method: sw.Method) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(sw.BinaryLinear(16, 4, method=method)).eval()
    examples = torch.randn(3, 16)
    expected = model(examples)
    sw.pack_(model)
    torch.testing.assert_close(model(examples), expected)
    again = nn.Sequential(nn.Linear(16, 4))
    sw.load_packed_(again, model.state_dict())
    torch.testing.assert_close(again(examples), expected)


def test_health_counts_blocks_as_groups() -> None:
    model = nn.Sequential(sw.BinaryLinear(16, 4, method=sw.GroupTransform(scale="mean", block=8)))
    assert sw.health(model)[0].groups == 8


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_program_computes_with_every_kind_of_scale(method: sw.GroupTransform, packed: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(sw.BinaryLinear(16, 8, method=method), nn.ReLU(), sw.BinaryLinear(8, 4, method=method)).eval()
    examples = torch.randn(3, 16)
    expected = model(examples).detach()
    if packed:
        sw.pack_(model)
    program = sw.compile(model, examples)
    torch.testing.assert_close(torch.from_numpy(program(examples.numpy())), expected)
    blocks = [operation.blocks for operation in program.ops if isinstance(operation, Dense)]
    assert blocks == ([1, 1] if method.block is None else [2, 1])  # a row of one block has one scale


def test_the_integer_form_refuses_a_scale_per_block_by_name() -> None:
    model = nn.Sequential(nn.Flatten(), sw.BinaryLinear(16, 4, method=sw.GroupTransform(scale="mean", block=8)))
    program = sw.compile(model, torch.randn(2, 1, 4, 4))
    with pytest.raises(sw.SignwiseError, match=r"operation 2 \(dense\) has no integer form"):
        program.to_integers(torch.randn(8, 1, 4, 4).numpy())


def test_ternary_weights_have_three_values_and_pass_the_gradient_on() -> None:
    latent = torch.tensor([[1.0, -0.3, 0.2, -2.0]], dtype=torch.float64).requires_grad_()
    weight = sw.Ternary().weight(latent, {})
    magnitude = 0.875
    torch.testing.assert_close(weight.detach(), magnitude * torch.tensor([[1.0, 0.0, 0.0, -1.0]]).double())
    weight.backward(torch.tensor([[1.0, 2.0, 3.0, 4.0]]).double())
    assert latent.grad is not None
    torch.testing.assert_close(latent.grad, torch.tensor([[1.0, 2.0, 3.0, 4.0]]).double())
    with pytest.raises(sw.SignwiseError, match="three values"):
        sw.pack_(nn.Sequential(sw.BinaryLinear(4, 2, method=sw.Ternary())))
