"""Residual networks for CIFAR: a 3x3 stem without pooling, then stages of basic blocks.

K. He et al., *Deep Residual Learning for Image Recognition*, https://arxiv.org/abs/1512.03385
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn

from signwise.models.shortcut import Shortcut


class BasicBlock(nn.Module):
    """y = relu(shortcut(x) + norm(conv(relu(norm(conv(x))))))."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = Shortcut(inputs, outputs, stride=stride)
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        branch = self.relu1(self.norm1(self.conv1(x)))
        branch = self.norm2(self.conv2(branch))
        out: Tensor = self.relu2(branch + self.shortcut(x))
        return out


def resnet18(num_classes: int = 10) -> nn.Sequential:
    """ResNet-18 for 32x32 images: two basic blocks at each of 64, 128, 256 and 512 channels.

    With all but its first and last layer binarized, it has 10,985,472 binary weights.

    Args:
        num_classes: the number of outputs.

    Returns:
        A model from (N, 3, 32, 32) to (N, num_classes).

    Example:
        >>> import torch
        >>> resnet18().eval()(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """
    return _resnet((64, 128, 256, 512), blocks=2, num_classes=num_classes)


def resnet20(num_classes: int = 10) -> nn.Sequential:
    """ResNet-20 for 32x32 images: three basic blocks at each of 16, 32 and 64 channels.

    Small enough to train on a CPU. With all but its first and last layer binarized, it has 267,264 binary weights.

    Args:
        num_classes: the number of outputs.

    Returns:
        A model from (N, 3, 32, 32) to (N, num_classes).

    Example:
        >>> import torch
        >>> resnet20().eval()(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """
    return _resnet((16, 32, 64), blocks=3, num_classes=num_classes)


def _resnet(widths: Sequence[int], *, blocks: int, num_classes: int) -> nn.Sequential:
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    inputs = widths[0]
    for number, outputs in enumerate(widths, start=1):
        first = BasicBlock(inputs, outputs, stride=1 if number == 1 else 2)
        stages[f"stage{number}"] = nn.Sequential(first, *(BasicBlock(outputs, outputs) for _ in range(blocks - 1)))
        inputs = outputs
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(3, widths[0], 3, padding=1, bias=False),
            norm=nn.BatchNorm2d(widths[0]),
            relu=nn.ReLU(),
            **stages,
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),  # (N, C, 1, 1) -> (N, C)
            dense=nn.Linear(inputs, num_classes),
        )
    )
