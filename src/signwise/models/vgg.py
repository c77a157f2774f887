"""VGG-Small, as in LQ-Nets: six 3x3 convolutions in pairs of 128, 256 and 512 filters, then one dense layer."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn


def vgg_small(num_classes: int = 10) -> nn.Sequential:
    """VGG-Small for 32x32 images of three channels.

    Batch norm and ReLU follow each convolution. The second convolution of a pair is pooled before its norm, so that the
    norm sees a quarter of the pixels. With all but its first and last layer binarized, it has 4,571,136 binary weights.

    Args:
        num_classes: the number of outputs.

    Returns:
        A model from (N, 3, 32, 32) to (N, num_classes).

    Example:
        >>> import torch
        >>> vgg_small(num_classes=100).eval()(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 100])
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    inputs = 3
    for number, outputs in enumerate((128, 128, 256, 256, 512, 512), start=1):
        layers[f"conv{number}"] = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        if number % 2 == 0:
            layers[f"pool{number}"] = nn.MaxPool2d(2)
        layers[f"norm{number}"] = nn.BatchNorm2d(outputs)
        layers[f"relu{number}"] = nn.ReLU()
        inputs = outputs
    layers["flatten"] = nn.Flatten()  # (N, 512, 4, 4) -> (N, 8192)
    layers["dense"] = nn.Linear(8192, num_classes)
    return nn.Sequential(layers)
