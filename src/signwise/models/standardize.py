"""The step from raw pixels to the inputs that a model was trained on.

    y = (x / 255 - mean) / std,    per channel

In front of a trained model, it lets the deployed program take raw images, bytes from 0 to 255.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from signwise.errors import SignwiseError


class Standardize(nn.Module):
    """Scale raw pixels (0 to 255) to zero mean and unit deviation per channel.

    Args:
        mean: the mean per channel of the training images, on the scale from 0 to 1.
        std: the standard deviation per channel, on the same scale; positive.

    Example:
        >>> standardize = Standardize(mean=[0.5], std=[0.25])
        >>> standardize(torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1)).flatten()
        tensor([-2.,  2.])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if not mean or len(mean) != len(std):
            raise SignwiseError(f"mean and std must have one value per channel, got {len(mean)} and {len(std)}")
        if not all(value > 0 for value in std):
            raise SignwiseError(f"std must be positive, got {tuple(std)}")
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).reshape(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return (x / 255 - self.mean) / self.std

    def extra_repr(self) -> str:
        return f"channels={self.mean.numel()}"
