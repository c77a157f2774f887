"""A convolutional network for microcontrollers: five 3x3 convolutions and a mean, 49,008 weights."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn


def tiny_cnn(num_classes: int = 10) -> nn.Sequential:
    """A network for 28x28 images of one channel whose packed weights fit into 7 KB of flash.

    The windows of the last convolution cover almost the whole image, so that the mean over its nine pixels loses little
    about where a stroke is. Binarized with ``skip=signwise.first_and_last``, it has 48,384 binary weights.

    Args:
        num_classes: the number of outputs.

    Returns:
        A model from (N, 1, 28, 28) to (N, num_classes).

    Example:
        >>> import torch
        >>> tiny_cnn()(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 16, 3, bias=False),  # 28 -> 26
            norm1=nn.BatchNorm2d(16),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),  # 26 -> 13
            conv2=nn.Conv2d(16, 32, 3, bias=False),  # 13 -> 11
            norm2=nn.BatchNorm2d(32),
            relu2=nn.ReLU(),
            conv3=nn.Conv2d(32, 32, 3, padding=1, bias=False),
            norm3=nn.BatchNorm2d(32),
            relu3=nn.ReLU(),
            pool3=nn.MaxPool2d(2),  # 11 -> 5
            conv4=nn.Conv2d(32, 48, 3, padding=1, bias=False),
            norm4=nn.BatchNorm2d(48),
            relu4=nn.ReLU(),
            conv5=nn.Conv2d(48, 48, 3, bias=False),  # 5 -> 3
            norm5=nn.BatchNorm2d(48),
            relu5=nn.ReLU(),
            pool5=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),  # (N, 48, 1, 1) -> (N, 48)
            dense=nn.Linear(48, num_classes),
        )
    )
