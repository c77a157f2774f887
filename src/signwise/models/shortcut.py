"""The shortcut of a residual block, without parameters."""

from __future__ import annotations

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
