"""LeNet5 in its 20-50-500 form: two 5x5 convolutions without padding, two dense layers."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn


def lenet5(num_classes: int = 10) -> nn.Sequential:
    """LeNet5 for 28x28 images of one channel.

    Layers before a batch norm have no bias: the norm would subtract it again. Binarized with
    ``skip=signwise.last``, it has 425,500 binary weights.

    Args:
        num_classes: the number of outputs.

    Returns:
        A model from (N, 1, 28, 28) to (N, num_classes).

    Example:
        >>> import torch
        >>> lenet5()(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 20, 5, bias=False),  # 28 -> 24
            norm1=nn.BatchNorm2d(20),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),  # 24 -> 12
            conv2=nn.Conv2d(20, 50, 5, bias=False),  # 12 -> 8
            norm2=nn.BatchNorm2d(50),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),  # 8 -> 4
            flatten=nn.Flatten(),  # (N, 50, 4, 4) -> (N, 800)
            dense1=nn.Linear(800, 500, bias=False),
            norm3=nn.BatchNorm1d(500),
            relu3=nn.ReLU(),
            dense2=nn.Linear(500, num_classes),
        )
    )
