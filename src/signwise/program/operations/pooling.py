"""Pools: each channel of an image reduced window by window, or as a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from signwise.errors import FormatError
from signwise.program.operations.base import (
    LIMITS,
    Array,
    NativeField,
    Operation,
    Padding,
    Pair,
    Quantized,
    Shape,
    Tensors,
    check_flag,
    check_window,
    need_image,
    pad,
    padded_size,
    window_shape,
)


@dataclass(frozen=True, kw_only=True)
class Pool(Operation):
    """A window that slides over each channel; windows that would reach beyond the padded image are left out.

    Args:
        kernel, stride: height and width.
        padding: rows and columns added at the top, left, bottom and right; smaller than the kernel, so that every
            window sees at least one pixel.
    """

    kernel: Pair
    stride: Pair
    padding: Padding = (0, 0, 0, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window(self.kernel, self.stride, self.padding)
        (kernel_height, kernel_width), (top, left, bottom, right) = self.kernel, self.padding
        if max(top, bottom) >= kernel_height or max(left, right) >= kernel_width:
            raise FormatError(f"padding must be smaller than kernel, got {self.padding} and {self.kernel}")

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return (need_image(inputs[0])[0], *window_shape(inputs[0], self.kernel, self.stride, self.padding))

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return math.prod(self.kernel) * math.prod(output)

    def padded_size(self, inputs: Sequence[Shape]) -> int:
        return padded_size(inputs, self.padding)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"kernel": self.kernel, "stride": self.stride, "padding": self.padding}

    def _windows(self, images: Array, fill: float) -> Array:
        # (batch, channels, height, width) -> (batch, channels, rows, columns, kh, kw)
        windows = np.lib.stride_tricks.sliding_window_view(pad(images, self.padding, fill), self.kernel, (2, 3))
        return windows[:, :, :: self.stride[0], :: self.stride[1]]


@dataclass(frozen=True, kw_only=True)
class MaxPool(Pool):
    """The largest pixel of each window; the padding never wins."""

    kind: ClassVar[str] = "maxpool"
    since: ClassVar[int] = 1
    number: ClassVar[int] = 5
    moves_numbers: ClassVar[bool] = True

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        made: Array = self._windows(inputs[0], fill=-math.inf).max(axis=(-2, -1))
        return made


@dataclass(frozen=True, kw_only=True)
class AvgPool(Pool):
    """The mean of each window; the padding counts as zeros, or not at all."""

    kind: ClassVar[str] = "avgpool"
    since: ClassVar[int] = 1
    number: ClassVar[int] = 6

    count_include_pad: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("count_include_pad", self.count_include_pad)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        counted = np.ones((1, 1, *inputs[0].shape[2:]))
        count = self._windows(counted, fill=float(self.count_include_pad)).sum(axis=(-2, -1))
        made: Array = self._windows(inputs[0], fill=0).sum(axis=(-2, -1)) / count
        return made

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return super().native_fields(tensors) | {"count_include_pad": self.count_include_pad}

    def exact_result(self, read: Quantized) -> Quantized | None:
        # A sum of `count` integers, divided by `count` in the scale: exact where the sum fits into a byte.
        count = math.prod(self.kernel)
        divides_by_count = self.count_include_pad or not any(self.padding)
        if divides_by_count and read.limits[0] == 0 and count * read.limits[1] <= LIMITS["uint8"][1]:
            return Quantized(type="uint8", scale=float(np.float32(read.scale / count)))
        return None


@dataclass(frozen=True, kw_only=True)
class GlobalPool(Operation):
    """The mean of each channel: ``(channels, height, width)`` to ``(channels,)``."""

    kind: ClassVar[str] = "globalpool"
    since: ClassVar[int] = 1
    number: ClassVar[int] = 7

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return (need_image(inputs[0])[0],)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        made: Array = inputs[0].mean(axis=(2, 3))
        return made
