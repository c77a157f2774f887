"""Each method against its definition, written independently in numpy: forward, gradient, after-step, deployed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import signwise as sw

ONE = torch.ones(())
Array = npt.NDArray[np.float64]


def forward_and_gradient(method: sw.Method, latent: Array, incoming: Array) -> tuple[Any, Any]:
    phi = torch.tensor(latent, requires_grad=True)
    weight = method.weight(phi, ONE, ONE)
    weight.backward(torch.tensor(incoming))
    assert phi.grad is not None
    return weight.detach().numpy(), phi.grad.numpy()


@pytest.fixture
def latent_and_gradient() -> tuple[Array, Array]:
    generator = np.random.default_rng(5)
    latent = generator.normal(size=(6, 4, 3, 3)) * 1.2
    latent[0, 0, 0, 0] = 0.0
    return latent, generator.normal(size=latent.shape)


def numpy_sign(latent: Array) -> Array:
    return np.where(latent > 0, 1.0, -1.0)


@pytest.mark.parametrize("clip", [1.0, 0.5, None])
def test_straight_through_passes_gradients_within_the_clip(
    latent_and_gradient: tuple[Array, Array], clip: float | None
) -> None:
    latent, incoming = latent_and_gradient
    weight, gradient = forward_and_gradient(sw.StraightThrough(clip=clip), latent, incoming)
    np.testing.assert_array_equal(weight, numpy_sign(latent))
    expected = incoming if clip is None else incoming * (np.abs(latent) <= clip)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=0)


def test_binary_connect_scales_the_gradient_by_glorot_and_clips(latent_and_gradient: tuple[Array, Array]) -> None:
    latent, incoming = latent_and_gradient
    method = sw.BinaryConnect()
    weight, gradient = forward_and_gradient(method, latent, incoming)
    np.testing.assert_array_equal(weight, numpy_sign(latent))
    fan_in, fan_out = 4 * 9, 6 * 9
    np.testing.assert_allclose(gradient, incoming / math.sqrt(1.5 / (fan_in + fan_out)), rtol=1e-12)
    phi = torch.nn.Parameter(torch.tensor(latent))
    method.after_step_(phi)
    np.testing.assert_array_equal(phi.detach(), np.clip(latent, -1, 1))


def test_binary_connect_without_glorot_is_the_plain_straight_through_sign(
    latent_and_gradient: tuple[Array, Array],
) -> None:
    latent, incoming = latent_and_gradient
    weight, gradient = forward_and_gradient(sw.BinaryConnect(glorot_learning_rate=False), latent, incoming)
    np.testing.assert_array_equal(weight, numpy_sign(latent))
    np.testing.assert_array_equal(gradient, incoming)


def test_scaled_sign_has_he_scale_and_identity_gradient(latent_and_gradient: tuple[Array, Array]) -> None:
    latent, incoming = latent_and_gradient
    weight, gradient = forward_and_gradient(sw.ScaledSign(), latent, incoming)
    np.testing.assert_allclose(weight, math.sqrt(2 / 36) * numpy_sign(latent), rtol=1e-15)
    np.testing.assert_array_equal(gradient, incoming)
    deployed = sw.ScaledSign().deploy(torch.tensor(latent))
    np.testing.assert_array_equal(deployed.signs, numpy_sign(latent))
    assert deployed.scale is not None
    np.testing.assert_allclose(deployed.scale.numpy(), np.full(6, math.sqrt(2 / 36)), rtol=1e-15)


@pytest.mark.parametrize("method", [sw.GroupTransform(), sw.StraightThrough(), sw.BinaryConnect()])
def test_other_methods_deploy_plain_signs(latent_and_gradient: tuple[Array, Array], method: sw.Method) -> None:
    latent, _ = latent_and_gradient
    deployed = method.deploy(torch.tensor(latent))
    assert deployed.scale is None
    np.testing.assert_array_equal(deployed.signs, numpy_sign(latent))


@pytest.mark.parametrize("method", [sw.GroupTransform(), sw.StraightThrough(), sw.BinaryConnect(), sw.ScaledSign()])
def test_each_method_learns_a_task_and_evaluates_what_it_deploys(method: sw.Method) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(512, 16)
    targets = (inputs @ torch.randn(16, 4).sign()).argmax(1)
    model: Any = torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
    )
    sw.binarize_(model, skip=sw.last, method=method)
    optimizer = sw.SGDW(sw.param_groups(model, 1e-4), lr=0.02)
    sw.attach(optimizer, model, sw.BinarizationSchedule(150, t_alpha=0.5))
    for _ in range(150):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(inputs).argmax(1) == targets).float().mean()
    deployed = model[0].deployed()
    scale = 1 if deployed.scale is None else deployed.scale[:, None]
    torch.testing.assert_close(model[0].effective_weight(), deployed.signs * scale)
    assert accuracy > 0.8  # chance is 0.25


@pytest.mark.parametrize("clip", [0.0, -1.0, math.nan])
def test_a_clip_that_is_not_positive_is_refused(clip: float) -> None:
    with pytest.raises(sw.SignwiseError, match="clip must be positive"):
        sw.StraightThrough(clip=clip)


def test_only_methods_with_an_after_step_say_that_they_need_it() -> None:
    methods = (sw.GroupTransform(), sw.StraightThrough(), sw.ScaledSign(), sw.BinaryConnect())
    assert [method.needs_after_step for method in methods] == [False, False, False, True]


def test_groups_are_filters_unless_a_method_has_others() -> None:
    assert sw.BinaryConnect().groups == sw.GroupTransform().groups == 0
    assert sw.GroupTransform(partition=(0, 1)).groups == (0, 1)
