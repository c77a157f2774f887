"""Residual networks for CIFAR: a 3x3 stem without pooling, then stages of residual blocks.

ResNet: K. He et al., *Deep Residual Learning for Image Recognition*, https://arxiv.org/abs/1512.03385
WRN, with pre-activation and without dropout: S. Zagoruyko and N. Komodakis, *Wide Residual Networks*,
https://arxiv.org/abs/1605.07146. As in the paper that this library implements, its first convolution has 64 filters
instead of 16.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from signwise.errors import SignwiseError


class Shortcut(nn.Module):
    """The identity, adapted to another shape without weights.

    If the block halves the resolution, 2x2 pixels are averaged; if it adds channels, zeros are appended. So all
    weights of the model are in its branches, where they can be binary.

    Args:
        inputs: the number of input channels.
        outputs: the number of output channels, at least ``inputs``.
        stride: 1, or 2 to halve the resolution.

    Example:
        >>> import torch
        >>> Shortcut(2, 5, stride=2)(torch.ones(1, 2, 4, 4))[0, :, 0, 0]
        tensor([1., 1., 0., 0., 0.])
    """

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        if outputs < inputs:
            raise SignwiseError(f"outputs must be at least inputs, got {outputs} < {inputs}")
        if stride not in (1, 2):
            raise SignwiseError(f"stride must be 1 or 2, got {stride}")
        self.extra_channels = outputs - inputs
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 2:
            x = F.avg_pool2d(x, 2)
        if self.extra_channels:
            x = F.pad(x, (0, 0, 0, 0, 0, self.extra_channels))
        return x

    def extra_repr(self) -> str:
        return f"extra_channels={self.extra_channels}, stride={self.stride}"


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


class PreActivationBlock(nn.Module):
    """y = shortcut(x) + conv(relu(norm(conv(relu(norm(x))))))."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.relu1 = nn.ReLU()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.relu2 = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = Shortcut(inputs, outputs, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        branch = self.conv1(self.relu1(self.norm1(x)))
        branch = self.conv2(self.relu2(self.norm2(branch)))
        out: Tensor = branch + self.shortcut(x)
        return out


def resnet8(num_classes: int = 10) -> nn.Sequential:
    """ResNet-8 for 32x32 images: one basic block at each of 16, 32 and 64 channels.

    The network of the image-classification task of MLPerf Tiny (C. Banbury et al., https://arxiv.org/abs/2106.07597),
    with shortcuts without weights instead of 1x1 convolutions. Small enough for a microcontroller: with all but its
    first and last layer binarized, it has 73,728 binary weights.

    Args:
        num_classes: the number of outputs.

    Returns:
        A model from (N, 3, 32, 32) to (N, num_classes).

    Example:
        >>> import torch
        >>> resnet8().eval()(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """
    return _resnet((16, 32, 64), blocks=1, num_classes=num_classes)


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


def wrn28_10(num_classes: int = 10) -> nn.Sequential:
    """WRN-28-10 for 32x32 images: four pre-activation blocks at each of 160, 320 and 640 channels.

    With all but its first and last layer binarized, it has 36,264,960 binary weights.

    Args:
        num_classes: the number of outputs.

    Returns:
        A model from (N, 3, 32, 32) to (N, num_classes).

    Example:
        >>> sum(parameter.numel() for parameter in wrn28_10(num_classes=100).parameters())
        36348836
    """
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    inputs = 64
    for number, outputs in enumerate((160, 320, 640), start=1):
        first = PreActivationBlock(inputs, outputs, stride=1 if number == 1 else 2)
        stages[f"stage{number}"] = nn.Sequential(first, *(PreActivationBlock(outputs, outputs) for _ in range(3)))
        inputs = outputs
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(3, 64, 3, padding=1, bias=False),
            **stages,
            norm=nn.BatchNorm2d(inputs),
            relu=nn.ReLU(),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),  # (N, 640, 1, 1) -> (N, 640)
            dense=nn.Linear(inputs, num_classes),
        )
    )


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
