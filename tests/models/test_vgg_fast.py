"""The first layer whitens patches, stays as it was fitted, and needs images of its own kind."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from signwise.errors import SignwiseError
from signwise.models import PatchWhitening, fit_to_images_, vgg_fast


def correlated_images(count: int = 64) -> torch.Tensor:
    noise = torch.randn(count, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    # Blurred, and with channels that share most of their content: nothing like white.
    return F.avg_pool2d(noise, 3, stride=1) + 0.5 * noise[:, :1, 1:-1, 1:-1]


def test_fitted_filters_make_patches_white() -> None:
    images, layer = correlated_images(), PatchWhitening(channels=3, size=2, epsilon=0.0)
    layer.fit_(images)
    outputs = F.conv2d(images, layer.weight)  # (N, 24, 9, 9), without the biases
    rows = outputs[:, :12].transpose(0, 1).flatten(1)
    torch.testing.assert_close(rows @ rows.T / rows.shape[1], torch.eye(12), atol=2e-3, rtol=0)
    torch.testing.assert_close(outputs[:, 12:], -outputs[:, :12])


def test_a_model_is_fitted_once_and_only_the_bias_of_its_first_layer_learns() -> None:
    model = vgg_fast()
    first = model[0]
    assert isinstance(first, PatchWhitening) and first.bias is not None
    before = first.weight.clone()
    fit_to_images_(model, torch.randn(8, 3, 32, 32))
    assert not torch.equal(first.weight, before)
    assert not first.weight.requires_grad and first.bias.requires_grad


def test_a_model_without_such_a_layer_stays_as_it_is() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fit_to_images_(model, torch.randn(8, 3, 8, 8))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_images_of_another_kind_are_refused() -> None:
    with pytest.raises(SignwiseError, match=r"\(N, 3, height, width\), got \(8, 1, 8, 8\)"):
        PatchWhitening().fit_(torch.zeros(8, 1, 8, 8))
