"""The transform and its gradient against a reference that follows the paper's equations element by element."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import signwise as sw
from signwise.transform import Labels, Partition, Squash

Array = npt.NDArray[Any]

SHAPE = (6, 5, 3, 2)


def labels_of(kind: str, shape: tuple[int, ...]) -> Array:
    """The group of each weight for a kind of partition, written out."""
    grid = np.indices(shape)
    if kind == "filter":
        return cast(Array, grid[0])
    if kind == "whole":
        return np.zeros(shape, dtype=int)
    if kind == "dims":
        return cast(Array, grid[0] * shape[1] + grid[1])
    return np.random.default_rng(3).permutation(np.arange(math.prod(shape)) % 11).reshape(shape) * 7 - 20


def partition_of(kind: str, shape: tuple[int, ...]) -> int | tuple[int, ...] | Tensor | None:
    named: dict[str, int | tuple[int, ...] | None] = {"filter": 0, "whole": None, "dims": (0, 1)}
    return named[kind] if kind in named else torch.from_numpy(labels_of(kind, shape))


def reference(latent: Array, zeta: float, alpha: float, labels: Array) -> Array:
    """Equations 3-7 and the interpolation, one group and one sign at a time."""
    binary = np.empty_like(latent)
    for label in np.unique(labels):
        for side, centre in ((latent > 0, 1.0), (latent <= 0, -1.0)):
            members = (labels == label) & side
            if members.any():
                binary[members] = (latent[members] - latent[members].mean()) * math.exp(-zeta) + centre
    return alpha * binary + (1 - alpha) * latent


def reference_gradient(latent: Array, zeta: float, alpha: float, labels: Array, incoming: Array) -> Array:
    """Jacobian-vector products written with the explicit matrix I - 11ᵀ/n of each sign of each group."""
    result = (1 - alpha) * incoming
    for label in np.unique(labels):
        for side in (latent > 0, latent <= 0):
            members = np.nonzero(((labels == label) & side).ravel())[0]
            if len(members):
                jacobian = (np.eye(len(members)) - 1 / len(members)) * math.exp(-zeta)
                result.reshape(-1)[members] += alpha * jacobian.T @ incoming.reshape(-1)[members]
    return result


@pytest.mark.parametrize("kind", ["filter", "whole", "dims", "labels"])
@given(seed=st.integers(0, 10_000), zeta=st.floats(0, 12), alpha=st.floats(0, 1))
@settings(max_examples=20, deadline=None)
def test_forward_and_gradient_agree_with_the_reference(kind: str, seed: int, zeta: float, alpha: float) -> None:
    generator = np.random.default_rng(seed)
    latent, incoming = generator.normal(size=SHAPE), generator.normal(size=SHAPE)
    latent[generator.random(SHAPE) < 0.05] = 0.0
    labels = labels_of(kind, SHAPE)
    phi = torch.tensor(latent, requires_grad=True)
    relaxed = sw.group_transform(phi, zeta, alpha, partition=partition_of(kind, SHAPE))
    relaxed.backward(torch.tensor(incoming))
    np.testing.assert_allclose(relaxed.detach(), reference(latent, zeta, alpha, labels), rtol=1e-12, atol=1e-12)
    expected = reference_gradient(latent, zeta, alpha, labels, incoming)
    assert phi.grad is not None
    np.testing.assert_allclose(phi.grad.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["filter", "whole", "dims", "labels"])
@pytest.mark.parametrize("squash", [None, torch.tanh])
def test_gradcheck_passes_once_and_twice(kind: str, squash: Squash | None) -> None:
    shape = (3, 4, 2, 2)
    # Away from zero: there the partition itself changes, and no finite difference is valid.
    latent = torch.randn(shape, dtype=torch.float64)
    latent = (latent + 0.3 * latent.sign()).requires_grad_()

    def transform(phi: Tensor) -> Tensor:
        return sw.group_transform(phi, 0.7, 0.6, partition=partition_of(kind, shape), squash=squash)

    assert torch.autograd.gradcheck(transform, (latent,))
    assert torch.autograd.gradgradcheck(transform, (latent,))


def test_gradient_of_one_signs_group_is_the_papers_last_equation() -> None:
    zeta, inputs = 1.3, torch.randn(9, dtype=torch.float64)
    phi = torch.rand(1, 9, dtype=torch.float64, requires_grad=True)
    (sw.group_transform(phi, zeta)[0] @ inputs).backward()
    assert phi.grad is not None
    torch.testing.assert_close(phi.grad[0], math.exp(-zeta) * (inputs - inputs.mean()), rtol=1e-12, atol=1e-12)


def test_gradients_within_each_sign_sum_to_zero_at_alpha_one() -> None:
    phi = torch.randn(8, 50, dtype=torch.float64, requires_grad=True)
    sw.group_transform(phi, 1.0).backward(torch.randn(8, 50, dtype=torch.float64))
    assert phi.grad is not None
    for side in (phi > 0, phi <= 0):
        torch.testing.assert_close((phi.grad * side).sum(1), torch.zeros(8, dtype=torch.float64), rtol=0, atol=1e-12)


@given(seed=st.integers(0, 1000), zeta=st.floats(0, 20), spread=st.floats(0.01, 50))
@settings(max_examples=40, deadline=None)
def test_squash_bounds_the_distance_from_one(seed: int, zeta: float, spread: float) -> None:
    latent = torch.randn(5, 40, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * spread
    weights = sw.group_transform(latent, zeta, squash=torch.tanh)
    assert float((weights.abs() - 1).abs().max()) < math.exp(-zeta)


def test_alpha_zero_gives_the_latent_and_its_gradient() -> None:
    phi = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    incoming = torch.randn(3, 7, dtype=torch.float64)
    relaxed = sw.group_transform(phi, 5.0, 0.0)
    relaxed.backward(incoming)
    torch.testing.assert_close(relaxed.detach(), phi.detach(), rtol=1e-15, atol=1e-15)
    torch.testing.assert_close(phi.grad, incoming, rtol=1e-15, atol=1e-15)


def test_zero_belongs_to_the_negative_partition() -> None:
    relaxed = sw.group_transform(torch.tensor([[0.0, -1.0, 1.0, 3.0]]), 50.0)
    assert relaxed.tolist() == [[-1.0, -1.0, 1.0, 1.0]]
    assert sw.binary_sign(torch.tensor([0.0, -0.0, 1e-45, -1e-45])).tolist() == [-1.0, -1.0, 1.0, -1.0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("zeta", [0.0, 1.0, 50.0])
@pytest.mark.parametrize(
    "group", [[0.5, 1.5, 2.5], [-0.5, -1.5, -2.5], [0.0, 0.0, 0.0], [0.5, -1.0, -2.0], [2.0, 1.0, -3.0]]
)
def test_sides_without_members_or_with_one_are_finite(group: list[float], zeta: float, dtype: torch.dtype) -> None:
    phi = torch.tensor([group], dtype=dtype, requires_grad=True)
    relaxed = sw.group_transform(phi, zeta)
    relaxed.sum().backward()
    assert relaxed.dtype == dtype and bool(relaxed.isfinite().all())
    assert phi.grad is not None and bool(phi.grad.isfinite().all())
    labels = np.zeros((1, 3), dtype=int)
    expected = reference(np.array([group]), zeta, 1.0, labels)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    np.testing.assert_allclose(relaxed.detach().double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_statistics_in_float32(dtype: torch.dtype) -> None:
    # 70,000 members of 1.0 overflow a float16 sum and stall a bfloat16 one.
    latent = torch.ones(1, 70_000, dtype=dtype)
    latent[0, ::2] = 3.0
    relaxed = sw.group_transform(latent, 0.0)
    assert sorted(set(relaxed.flatten().tolist())) == [0.0, 2.0]


@pytest.mark.parametrize(("shape", "partition"), [((5, 1), 0), ((3, 2), (0, 1)), ((1,), None), ((4, 2, 1), (0, 1))])
def test_a_group_with_fewer_than_two_weights_is_refused(shape: tuple[int, ...], partition: Partition) -> None:
    with pytest.raises(sw.SignwiseError, match="at least 2 weights"):
        sw.group_transform(torch.randn(shape), 1.0, partition=partition)


def test_a_label_with_one_weight_is_refused_by_its_name() -> None:
    with pytest.raises(sw.SignwiseError, match="label 9 has only one"):
        sw.group_transform(torch.randn(2, 2), 1.0, partition=torch.tensor([[1, 1], [1, 9]]))


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (torch.zeros(2, 2), "integer labels"),
        (torch.zeros(3, 2, dtype=torch.long), "has shape"),
        (2, "out of range"),
    ],
)
def test_a_partition_that_does_not_fit_is_refused(partition: Partition, message: str) -> None:
    with pytest.raises(sw.SignwiseError, match=message):
        sw.group_transform(torch.randn(2, 2), 1.0, partition=partition)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((-1.0, 0.5), "zeta must be"), ((1.0, 1.5), "alpha must be"), ((math.nan, 0.5), "zeta must be")],
)
def test_zeta_and_alpha_outside_their_range_are_refused_by_name(arguments: tuple[float, float], message: str) -> None:
    with pytest.raises(sw.SignwiseError, match=message):
        sw.group_transform(torch.randn(2, 2), *arguments)


def test_integer_latents_are_refused() -> None:
    with pytest.raises(sw.SignwiseError, match=r"floating point, got torch\.int64"):
        sw.group_transform(torch.ones(2, 2, dtype=torch.long), 1.0)


def test_nan_is_never_turned_into_minus_one() -> None:
    latent = torch.tensor([[1.0, math.nan, -1.0, -2.0]])
    assert sw.binary_sign(latent).isnan().tolist() == [[False, True, False, False]]
    assert bool(sw.group_transform(latent, 1.0)[0, 1].isnan())


def test_an_infinite_latent_keeps_its_sign() -> None:
    assert sw.binary_sign(torch.tensor([math.inf, -math.inf])).tolist() == [1.0, -1.0]


def test_nothing_of_the_latents_size_is_saved_but_the_latent() -> None:
    saved: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    phi = torch.randn(20, 300, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        sw.group_transform(phi, 1.0, 0.5)
    large = [tensor for tensor in saved if tensor.numel() >= phi.numel()]
    assert [tensor.data_ptr() for tensor in large] == [phi.data_ptr()]


def test_compiled_once_for_every_alpha_and_zeta() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def count(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    def loss(phi: Tensor, zeta: Tensor, alpha: Tensor, labels: Labels) -> Tensor:
        filters = sw.group_transform(phi, zeta, alpha)
        return (filters * sw.group_transform(phi, zeta, alpha, partition=labels)).sum()

    labels = Labels.of(torch.arange(40).view(4, 10) % 7)
    compiled = torch.compile(loss, fullgraph=True, backend=count)
    phi = torch.randn(4, 10, requires_grad=True)
    for step in range(5):
        zeta, alpha = torch.tensor(1.0 + step), torch.tensor(step / 5)
        (expected,) = torch.autograd.grad(loss(phi, zeta, alpha, labels), phi)
        (got,) = torch.autograd.grad(compiled(phi, zeta, alpha, labels), phi)
        torch.testing.assert_close(got, expected)
    assert len(graphs) == 1


def test_autocast_leaves_the_statistics_alone() -> None:
    phi = torch.randn(4, 30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = sw.group_transform(phi, 1.0, 0.5)
    torch.testing.assert_close(inside, sw.group_transform(phi, 1.0, 0.5), rtol=0, atol=0)
