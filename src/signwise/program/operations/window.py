"""Windows that slide over padded images: the geometry that convolutions and pools share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from signwise.errors import FormatError
from signwise.program.operations.base import Array, Shape, check_integers, need_image

LARGEST_WINDOW = 1024  # kernel, stride, dilation, padding: bounds what a small file may make a reader allocate

Pair: TypeAlias = tuple[int, int]  # height, width
Padding: TypeAlias = tuple[int, int, int, int]  # top, left, bottom, right


def positions(size: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """How many windows fit along a dimension of ``size`` pixels, padding included.

        floor((size - dilation * (kernel - 1) - 1) / stride) + 1

    Example:
        >>> positions(32, kernel=3, stride=2)
        15
    """
    return (size - dilation * (kernel - 1) - 1) // stride + 1


def check_window(kernel: Pair, stride: Pair, padding: Padding, dilation: Pair = (1, 1)) -> None:
    check_integers("kernel", kernel, 2, 1, LARGEST_WINDOW)
    check_integers("stride", stride, 2, 1, LARGEST_WINDOW)
    check_integers("padding", padding, 4, 0, LARGEST_WINDOW)
    check_integers("dilation", dilation, 2, 1, LARGEST_WINDOW)


def window_shape(shape: Shape, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair = (1, 1)) -> Pair:
    """Height and width of the result for an input of ``(channels, height, width)``."""
    _, height, width = need_image(shape)
    top, left, bottom, right = padding
    sizes = []
    for axis, size in enumerate((height + top + bottom, width + left + right)):
        extent = dilation[axis] * (kernel[axis] - 1) + 1
        if extent > size:
            raise FormatError(f"a window of {extent} does not fit the padded {('height', 'width')[axis]} of {size}")
        sizes.append(positions(size, kernel[axis], stride[axis], dilation[axis]))
    return sizes[0], sizes[1]


def padded_size(inputs: Sequence[Shape], padding: Padding) -> int:
    """Numbers in the padded image, 0 without padding."""
    channels, height, width = inputs[0]
    top, left, bottom, right = padding
    return channels * (height + top + bottom) * (width + left + right) if any(padding) else 0


def pad(images: Array, padding: Padding, fill: float = 0) -> Array:
    top, left, bottom, right = padding
    return np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
