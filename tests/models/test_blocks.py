"""The blocks that the residual networks are made of, and the step in front of a network."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from signwise.models import Standardize
from signwise.models.resnet import BasicBlock
from signwise.models.shortcut import Shortcut
from signwise.models.wide_resnet import PreActivationBlock


def test_a_shortcut_of_the_same_shape_is_the_identity():
    images = torch.randn(2, 3, 4, 4)
    assert Shortcut(3, 3)(images) is images


def test_a_shortcut_averages_two_by_two_pixels_and_appends_zero_channels():
    images = torch.randn(2, 3, 6, 4)
    out = Shortcut(3, 5, stride=2)(images)
    assert out.shape == (2, 5, 3, 2)
    assert torch.allclose(out[:, :3], images.unflatten(2, (3, 2)).unflatten(4, (2, 2)).mean((3, 5)))
    assert (out[:, 3:] == 0).all()


def test_a_shortcut_has_no_parameters():
    assert not Shortcut(3, 5, stride=2).state_dict()


@pytest.mark.parametrize(
    ("outputs", "stride", "message"), [(2, 1, "outputs must be at least inputs"), (3, 4, "stride")]
)
def test_a_shortcut_that_is_impossible_is_refused(outputs: int, stride: int, message: str):
    with pytest.raises(ValueError, match=message):
        Shortcut(3, outputs, stride=stride)


def statistics_that_matter(block: nn.Module) -> nn.Module:
    for module in block.modules():
        if isinstance(module, nn.BatchNorm2d):
            for values in (module.weight, module.bias, module.running_mean):
                nn.init.normal_(values)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return block.eval()


def norm(layer: nn.BatchNorm2d, x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias)


def reference_shortcut(x: torch.Tensor, outputs: int, stride: int) -> torch.Tensor:
    pooled = F.avg_pool2d(x, stride)
    return torch.cat([pooled, pooled.new_zeros(len(x), outputs - x.shape[1], *pooled.shape[2:])], 1)


@pytest.mark.parametrize(("inputs", "outputs", "stride"), [(3, 3, 1), (3, 8, 2), (3, 8, 1)])
@torch.no_grad()
def test_a_basic_block_activates_after_the_sum(inputs: int, outputs: int, stride: int):
    torch.manual_seed(0)
    block = statistics_that_matter(BasicBlock(inputs, outputs, stride=stride))
    x = torch.randn(2, inputs, 8, 8)
    hidden = F.relu(norm(block.norm1, F.conv2d(x, block.conv1.weight, stride=stride, padding=1)))
    branch = norm(block.norm2, F.conv2d(hidden, block.conv2.weight, padding=1))
    assert torch.allclose(block(x), F.relu(branch + reference_shortcut(x, outputs, stride)), atol=1e-5)


@pytest.mark.parametrize(("inputs", "outputs", "stride"), [(3, 3, 1), (3, 8, 2), (3, 8, 1)])
@torch.no_grad()
def test_a_pre_activation_block_passes_its_input_on_untouched(inputs: int, outputs: int, stride: int):
    torch.manual_seed(0)
    block = statistics_that_matter(PreActivationBlock(inputs, outputs, stride=stride))
    x = torch.randn(2, inputs, 8, 8)
    hidden = F.conv2d(F.relu(norm(block.norm1, x)), block.conv1.weight, stride=stride, padding=1)
    branch = F.conv2d(F.relu(norm(block.norm2, hidden)), block.conv2.weight, padding=1)
    assert torch.allclose(block(x), branch + reference_shortcut(x, outputs, stride), atol=1e-5)


def test_standardized_images_have_zero_mean_and_unit_deviation():
    images = torch.randint(0, 256, (50, 3, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    scaled = images.double() / 255
    deviation, mean = torch.std_mean(scaled, (0, 2, 3), correction=0)
    out = Standardize(mean.tolist(), deviation.tolist())(images)
    assert out.dtype == torch.float32
    assert torch.allclose(out.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(out.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5)


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [([], [], "one value a channel"), ([0.5], [1, 1], "got 1 and 2"), ([0.5], [0.0], "std must be positive")],
)
def test_statistics_that_do_not_fit_are_refused(mean: list[float], std: list[float], message: str):
    with pytest.raises(ValueError, match=message):
        Standardize(mean, std)
