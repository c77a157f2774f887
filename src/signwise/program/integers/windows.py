"""Windows that slide over images of integers, in numpy: those of layers, and those of pools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from signwise.program.operations import Padding, Pair
from signwise.program.operations.base import window_shape

Integers: TypeAlias = npt.NDArray[np.integer[Any]]
Image: TypeAlias = tuple[int, int, int]  # channels, height, width

BLOCK = 2**22  # numbers under the windows that numpy multiplies at once


@dataclass(frozen=True, kw_only=True)
class Window:
    """How a window slides over an image."""

    kernel: Pair
    stride: Pair
    padding: Padding
    dilation: Pair = (1, 1)

    def output_size(self, read: Image) -> Pair:
        return window_shape(read, self.kernel, self.stride, self.padding, self.dilation)

    def padded_size(self, read: Image) -> int:
        channels, height, width = read
        top, left, bottom, right = self.padding
        return channels * (height + top + bottom) * (width + left + right) if any(self.padding) else 0

    def seen(self, images: Integers, fill: int) -> Integers:
        """A view of ``(batch, height, width, channels)`` as ``(batch, rows, columns, kh, kw, channels)``."""
        top, left, bottom, right = self.padding
        padded = np.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
        extent = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        seen = np.lib.stride_tricks.sliding_window_view(padded, extent, (1, 2))
        seen = seen[:, :: self.stride[0], :: self.stride[1], :, :: self.dilation[0], :: self.dilation[1]]
        windows: Integers = seen.transpose(0, 1, 2, 4, 5, 3)
        return windows


def largest(windows: Integers) -> Integers:
    """The largest number of each window."""
    found: Integers = windows.max(axis=(3, 4))
    return found


def blocks(rows: int, columns: int, numbers: int) -> Iterator[tuple[slice, slice]]:
    """Parts of a result whose windows take about ``BLOCK`` numbers, with so many under the window of one pixel."""
    width = min(columns, max(1, BLOCK // numbers))
    height = max(1, BLOCK // (numbers * width)) if width == columns else 1
    for row in range(0, rows, height):
        for column in range(0, columns, width):
            yield slice(row, row + height), slice(column, column + width)
