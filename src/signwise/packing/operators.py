"""``torch.ops.signwise``: layers with packed weights as PyTorch operators.

``torch.compile`` and ``torch.export`` do not look inside and learn the result's shape from the fake implementations.
float32 tensors on the CPU go to the native kernels; everything else unpacks the bits and uses PyTorch's own layers.
"""

from __future__ import annotations

from typing import NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from signwise.errors import SignwiseError
from signwise.packing.bits import unpack_signs
from signwise.packing.kernel_cache import run_native
from signwise.program import operations as ops


@torch.library.custom_op(
    "signwise::packed_linear",
    mutates_args=(),
    schema="(Tensor input, Tensor bits, Tensor? scale, Tensor? bias) -> Tensor",
)
def packed_linear(input: Tensor, bits: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    """scale * (signs @ input) + bias, on the last dimension of ``input``."""
    out_features, in_features = bits.shape[0], input.shape[-1]
    rows = input.reshape(-1, in_features)
    geometry = (("out_features", out_features), ("in_features", in_features))
    native = run_native(ops.Dense, geometry, rows, bits, scale, bias)
    if native is not None:
        # Not a view: a function in place, such as ReLU(inplace=True), may come next while gradients are on.
        return torch.from_numpy(native.numpy().reshape(*input.shape[:-1], out_features))
    total = F.linear(input, unpack_signs(bits, (out_features, in_features), input.dtype))
    return _finish(total, scale, bias, dimension=-1)


@torch.library.custom_op(
    "signwise::packed_conv2d",
    mutates_args=(),
    schema="(Tensor input, Tensor bits, Tensor? scale, Tensor? bias, int[] kernel, int[] stride, int[] padding, "
    "int[] dilation, int groups) -> Tensor",
)
def packed_conv2d(
    input: Tensor, bits: Tensor, scale: Tensor | None, bias: Tensor | None, kernel: list[int], stride: list[int],
    padding: list[int], dilation: list[int], groups: int,
) -> Tensor:  # fmt: skip
    """A convolution of ``(batch, channels, height, width)``; ``padding`` is top, left, bottom, right."""
    top, left, bottom, right = padding
    geometry = (
        ("out_channels", bits.shape[0]),
        ("kernel", tuple(kernel)),
        ("stride", tuple(stride)),
        ("padding", tuple(padding)),
        ("dilation", tuple(dilation)),
        ("groups", groups),
    )
    native = run_native(ops.Conv, geometry, input, bits, scale, bias)
    if native is not None:
        return native
    weight = unpack_signs(bits, (bits.shape[0], input.shape[1] // groups, *kernel), input.dtype)
    total = F.conv2d(F.pad(input, (left, right, top, bottom)), weight, None, stride, 0, dilation, groups)
    return _finish(total, scale, bias, dimension=1)


def _finish(total: Tensor, scale: Tensor | None, bias: Tensor | None, dimension: int) -> Tensor:
    shape = [1] * total.dim()
    shape[dimension] = -1
    if scale is not None:
        total = total * scale.to(total.dtype).view(shape)
    return total if bias is None else total + bias.to(total.dtype).view(shape)


@packed_linear.register_fake
def _(input: Tensor, bits: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    return input.new_empty((*input.shape[:-1], bits.shape[0]))


@packed_conv2d.register_fake
def _(
    input: Tensor, bits: Tensor, scale: Tensor | None, bias: Tensor | None, kernel: list[int], stride: list[int],
    padding: list[int], dilation: list[int], groups: int,
) -> Tensor:  # fmt: skip
    top, left, bottom, right = padding
    padded = (input.shape[2] + top + bottom, input.shape[3] + left + right)
    sizes = [ops.positions(*along) for along in zip(padded, kernel, stride, dilation, strict=True)]
    return input.new_empty((input.shape[0], bits.shape[0], *sizes))


def _refuse_backward(context: object, gradient: Tensor) -> NoReturn:
    raise SignwiseError("packed layers are for inference and have no gradient; train the model before pack_")


packed_linear.register_autograd(_refuse_backward)
packed_conv2d.register_autograd(_refuse_backward)
