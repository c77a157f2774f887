"""Transposed convolutions, with one bit or 32 bits per weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from signwise.errors import FormatError
from signwise.program.operations.base import (
    LARGEST_SIZE,
    LARGEST_WINDOW,
    Array,
    NativeField,
    Padding,
    Pair,
    Shape,
    Tensors,
    check_integer,
    check_integers,
    check_window,
    need_image,
)
from signwise.program.operations.layers import Weighted


@dataclass(frozen=True, kw_only=True)
class ConvTranspose(Weighted):
    """``nn.ConvTranspose2d``: every pixel adds its multiple of the kernel to the result, ``stride`` apart.

    A row of the weights belongs to one output channel: ``(out_channels, in_channels / groups, height, width)``, where
    PyTorch keeps the input channels first.

    Args:
        out_channels: number of filters.
        kernel, stride, dilation: height and width.
        padding: rows and columns cut off at the top, left, bottom and right.
        groups: input and output channels are split into this many independent parts.
        output_padding: rows and columns added at the bottom and right before that.
    """

    kind: ClassVar[str] = "conv_transpose"
    number: ClassVar[int] = 28

    out_channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    output_padding: Pair = (0, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("out_channels", self.out_channels, 1, LARGEST_SIZE)
        check_window(self.kernel, self.stride, self.padding, self.dilation)
        check_integer("groups", self.groups, 1, LARGEST_SIZE)
        check_integers("output_padding", self.output_padding, 2, 0, LARGEST_WINDOW)
        if self.out_channels % self.groups:
            raise FormatError(f"out_channels must be a multiple of groups, got {self.out_channels} and {self.groups}")

    def _full(self, sides: Sequence[int]) -> list[int]:
        """Height and width before anything is cut off."""
        return [
            (side - 1) * step + spread * (kernel - 1) + 1 + more
            for side, step, spread, kernel, more in zip(
                sides, self.stride, self.dilation, self.kernel, self.output_padding, strict=True
            )
        ]

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, *sides = need_image(inputs[0])
        if channels % self.groups:
            raise FormatError(f"{channels} input channels are no multiple of groups {self.groups}")
        top, left, bottom, right = self.padding
        height, width = self._full(sides)
        size = (height - top - bottom, width - left - right)
        if min(size) < 1:
            raise FormatError(f"padding {self.padding} leaves nothing of {height}x{width} pixels")
        return self._check_shapes(inputs, (self.out_channels, *size))

    def weight_shape(self, read: Shape) -> Shape:
        return (self.out_channels, read[0] // self.groups, *self.kernel)

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return self.terms(inputs[0]) * self.out_channels * math.prod(inputs[0][1:]) + math.prod(output)

    def padded_size(self, inputs: Sequence[Shape]) -> int:
        return self.out_channels * math.prod(self._full(inputs[0][1:]))

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        images = inputs[0]
        batch, channels, rows, columns = images.shape
        groups = self.groups
        weight = self.unpacked_weight(tensors, images.shape[1:]).astype(images.dtype)
        # (groups · filters, in, kh, kw) -> (kh, kw, groups, filters, in): one matrix per tap
        taps = weight.reshape(groups, -1, *weight.shape[1:]).transpose(3, 4, 0, 1, 2)
        pixels = images.reshape(batch, groups, channels // groups, rows * columns)
        height, width = self._full((rows, columns))
        full = np.zeros((batch, self.out_channels, height, width), images.dtype)
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                top, left = row * self.dilation[0], column * self.dilation[1]
                down = slice(top, top + (rows - 1) * self.stride[0] + 1, self.stride[0])
                across = slice(left, left + (columns - 1) * self.stride[1] + 1, self.stride[1])
                product = taps[row, column] @ pixels
                full[:, :, down, across] += product.reshape(batch, self.out_channels, rows, columns)
        top, left, bottom, right = self.padding
        return self._epilogue(full[:, :, top : height - bottom, left : width - right], inputs[1:], tensors)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return super().native_fields(tensors) | {
            "out_channels": self.out_channels,
            "kernel": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
            "sizes": self.output_padding,
        }
