"""Binary activations: sign(x) forward, and a gradient that pretends the step had a slope.

    clipped     ∂/∂x = 1[|x| ≤ 1]           the straight-through estimator
    approx      ∂/∂x = max(0, 2 - 2|x|)     the derivative of a piecewise quadratic: closer to the step, no dearer
    learned     approx of x + b             with one learned shift b per channel

Put one in front of a binary layer, after normalization, in the place of a ReLU. The layer then reads ±1 and adds up
signs. A compiled program keeps such a value in one byte per number, and the byte kernels read it.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from signwise.errors import SignwiseError
from signwise.transform import binary_sign

Kind = Literal["approx", "clipped", "learned"]


@torch.library.custom_op(
    "signwise::binary_activation", mutates_args=(), schema="(Tensor input, bool approximate) -> Tensor"
)
def binary_activation(input: Tensor, approximate: bool) -> Tensor:
    """+1 where the input is positive, else -1; an operator of its own, so that compilers see one node."""
    return binary_sign(input)


@binary_activation.register_fake
def _(input: Tensor, approximate: bool) -> Tensor:
    return torch.empty_like(input)


def _remember(ctx: Any, inputs: tuple[Tensor, bool], output: Tensor) -> None:
    ctx.approximate = inputs[1]
    ctx.save_for_backward(inputs[0])


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    magnitude = ctx.saved_tensors[0].abs()
    slope = (2 - 2 * magnitude).clamp(min=0) if ctx.approximate else (magnitude <= 1).to(gradient.dtype)
    return gradient * slope, None


binary_activation.register_autograd(_backward, setup_context=_remember)


class BinaryActivation(nn.Module):
    """sign(x), with zero giving -1 as for weights.

    Args:
        kind: the gradient; see the head of this module.
        channels: for ``"learned"``, the size of dimension 1 of the input.

    Reference:
        I. Hubara et al., Binarized Neural Networks, 2016 (clipped); Z. Liu et al., Bi-Real Net, ECCV 2018 (approx);
        Z. Liu et al., ReActNet, ECCV 2020 (learned).

    Example:
        >>> x = torch.tensor([[-2.0, 0.25, 0.75]], requires_grad=True)
        >>> y = BinaryActivation()(x)
        >>> y.sum().backward()
        >>> y.tolist(), x.grad.tolist()
        ([[-1.0, 1.0, 1.0]], [[0.0, 1.5, 0.5]])
    """

    def __init__(self, kind: Kind = "approx", channels: int | None = None) -> None:
        super().__init__()
        if kind not in ("approx", "clipped", "learned"):
            raise SignwiseError(f"kind must be 'approx', 'clipped' or 'learned', got {kind!r}")
        if (kind == "learned") != (channels is not None):
            raise SignwiseError(f"channels belongs to kind='learned', got kind={kind!r} and channels={channels!r}")
        self.kind = kind
        self.shift = None if channels is None else nn.Parameter(torch.zeros(channels))

    def forward(self, input: Tensor) -> Tensor:
        shifted = input if self.shift is None else input + _per_channel(self.shift, input)
        result: Tensor = binary_activation(shifted, self.kind != "clipped")
        return result

    def extra_repr(self) -> str:
        return f"kind={self.kind!r}" + ("" if self.shift is None else f", channels={len(self.shift)}")


class ShiftedPReLU(nn.Module):
    """PReLU(x + γ) + ζ with learned γ, ζ and slope per channel: ReActNet's RPReLU, for after a binary layer's shortcut.

    Args:
        channels: the size of dimension 1 of the input.

    Reference:
        Z. Liu et al., ReActNet, ECCV 2020.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shift_before = nn.Parameter(torch.zeros(channels))
        self.shift_after = nn.Parameter(torch.zeros(channels))
        self.slope = nn.Parameter(torch.full((channels,), 0.25))

    def forward(self, input: Tensor) -> Tensor:
        shifted = input + _per_channel(self.shift_before, input)
        bent = torch.nn.functional.prelu(shifted, self.slope)
        return bent + _per_channel(self.shift_after, input)


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    """(channels,) -> (channels, 1, ...), to broadcast over (batch, channels, ...)."""
    return values.view(-1, *[1] * (like.dim() - 2))
