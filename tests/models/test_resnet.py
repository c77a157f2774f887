"""The shortcut and the blocks of the residual networks, against their formulas."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from signwise.errors import SignwiseError
from signwise.models.resnet import BasicBlock, PreActivationBlock, Shortcut


def test_a_shortcut_of_the_same_shape_is_the_identity() -> None:
    images = torch.randn(2, 3, 4, 4)
    assert Shortcut(3, 3)(images) is images


def test_a_shortcut_averages_two_by_two_pixels_and_appends_zero_channels() -> None:
    images = torch.randn(2, 3, 6, 4)
    out = Shortcut(3, 5, stride=2)(images)
    assert out.shape == (2, 5, 3, 2)
    assert torch.allclose(out[:, :3], images.unflatten(2, (3, 2)).unflatten(4, (2, 2)).mean((3, 5)))
    assert (out[:, 3:] == 0).all()


def test_a_shortcut_has_no_parameters() -> None:
    assert not Shortcut(3, 5, stride=2).state_dict()


@pytest.mark.parametrize(
    ("outputs", "stride", "message"), [(2, 1, "outputs must be at least inputs"), (3, 4, "stride")]
)
def test_an_impossible_shortcut_is_refused(outputs: int, stride: int, message: str) -> None:
    with pytest.raises(SignwiseError, match=message):
        Shortcut(3, outputs, stride=stride)


def randomize_norms_(block: nn.Module) -> None:
    """Give every batch norm statistics and factors that a wrong order of operations would reveal."""
    for module in block.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            for values in (module.weight, module.bias, module.running_mean):
                nn.init.normal_(values)
            nn.init.uniform_(module.running_var, 0.5, 2)


def norm(layer: nn.BatchNorm2d, x: Tensor) -> Tensor:
    return F.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias)


def reference_shortcut(x: Tensor, outputs: int, stride: int) -> Tensor:
    pooled = F.avg_pool2d(x, stride)
    return torch.cat([pooled, pooled.new_zeros(len(x), outputs - x.shape[1], *pooled.shape[2:])], 1)


@pytest.mark.parametrize(("inputs", "outputs", "stride"), [(3, 3, 1), (3, 8, 2), (3, 8, 1)])
@torch.no_grad()
def test_a_basic_block_activates_after_the_sum(inputs: int, outputs: int, stride: int) -> None:
    torch.manual_seed(0)
    block = BasicBlock(inputs, outputs, stride=stride).eval()
    randomize_norms_(block)
    x = torch.randn(2, inputs, 8, 8)
    hidden = F.relu(norm(block.norm1, F.conv2d(x, block.conv1.weight, stride=stride, padding=1)))
    branch = norm(block.norm2, F.conv2d(hidden, block.conv2.weight, padding=1))
    assert torch.allclose(block(x), F.relu(branch + reference_shortcut(x, outputs, stride)), atol=1e-5)


@pytest.mark.parametrize(("inputs", "outputs", "stride"), [(3, 3, 1), (3, 8, 2), (3, 8, 1)])
@torch.no_grad()
def test_a_pre_activation_block_passes_its_input_on_untouched(inputs: int, outputs: int, stride: int) -> None:
    torch.manual_seed(0)
    block = PreActivationBlock(inputs, outputs, stride=stride).eval()
    randomize_norms_(block)
    x = torch.randn(2, inputs, 8, 8)
    hidden = F.conv2d(F.relu(norm(block.norm1, x)), block.conv1.weight, stride=stride, padding=1)
    branch = F.conv2d(F.relu(norm(block.norm2, hidden)), block.conv2.weight, padding=1)
    assert torch.allclose(block(x), branch + reference_shortcut(x, outputs, stride), atol=1e-5)
