"""Images in another size: interpolation, and pools whose windows adapt to the size of the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from signwise.errors import FormatError
from signwise.program.operations.base import (
    LARGEST_SIZE,
    Array,
    NativeField,
    Operation,
    Pair,
    Quantized,
    Shape,
    Tensors,
    check_choice,
    check_integers,
    check_number,
    need_image,
)

# The order is the numbering of the C interface.
RESIZE_MODES = ("nearest", "bilinear", "bilinear_aligned")
POOLS = ("average", "max")


@dataclass(frozen=True, kw_only=True)
class Resize(Operation):
    """``torch.nn.functional.interpolate`` of an image.

    Args:
        size: height and width of the result.
        mode: ``"nearest"``, ``"bilinear"``, or ``"bilinear_aligned"`` for ``align_corners=True``.
        ratios: input pixels per output pixel, vertical and horizontal, as PyTorch computes them in float32.
    """

    kind: ClassVar[str] = "resize"
    number: ClassVar[int] = 22
    number_attributes: ClassVar[tuple[str, ...]] = ("ratios",)

    size: Pair
    mode: str
    ratios: tuple[float, float]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers("size", self.size, 2, 1, LARGEST_SIZE)
        check_choice("mode", self.mode, RESIZE_MODES)
        if not isinstance(self.ratios, tuple) or len(self.ratios) != 2:
            raise FormatError(f"ratios must be two numbers, got {self.ratios!r}")
        for ratio in self.ratios:
            check_number("ratios", ratio)
            if not 0 <= ratio <= LARGEST_SIZE:
                raise FormatError(f"ratios must lie from 0 to {LARGEST_SIZE}, got {ratio}")

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return (need_image(inputs[0])[0], *self.size)

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return 4 * math.prod(output)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        images = inputs[0]
        for axis, made, ratio in zip((2, 3), self.size, self.ratios, strict=True):
            last = images.shape[axis] - 1
            place = self.places(made, np.float32(ratio))
            below = np.minimum(place.astype(np.int64), last)
            if self.mode == "nearest":
                images = images.take(below, axis=axis)
                continue
            share = np.clip(place - below, 0, 1).astype(images.dtype).reshape(-1, *[1] * (3 - axis))
            lower, upper = images.take(below, axis=axis), images.take(np.minimum(below + 1, last), axis=axis)
            images = (1 - share) * lower + share * upper
        return images

    def places(self, made: int, ratio: np.float32) -> npt.NDArray[Any]:
        """Where each pixel of the result lies in the input, in float32 as PyTorch computes it."""
        pixels = np.arange(made, dtype=np.float32)
        centred = np.maximum(ratio * (pixels + np.float32(0.5)) - np.float32(0.5), 0)
        places: npt.NDArray[Any] = centred if self.mode == "bilinear" else ratio * pixels
        return places

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"sizes": self.size, "function": RESIZE_MODES.index(self.mode), "numbers": self.ratios}

    def exact_result(self, read: Quantized) -> Quantized | None:
        return read if self.mode == "nearest" else None


@dataclass(frozen=True, kw_only=True)
class AdaptivePool(Operation):
    """The mean or the largest pixel of windows from ⌊i·in / out⌋ to ⌈(i + 1)·in / out⌉, which may differ in size.

    Args:
        size: height and width of the result.
        function: ``"average"`` or ``"max"``.
    """

    kind: ClassVar[str] = "adaptive_pool"
    number: ClassVar[int] = 24

    size: Pair
    function: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers("size", self.size, 2, 1, LARGEST_SIZE)
        check_choice("function", self.function, POOLS)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return (need_image(inputs[0])[0], *self.size)

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        # Windows overlap by one pixel at most, or repeat where the result is larger.
        sides = [made * (-(-side // made) + 1) for side, made in zip(inputs[0][1:], self.size, strict=True)]
        return inputs[0][0] * math.prod(sides)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        images = inputs[0]
        for axis, made in zip((2, 3), self.size, strict=True):
            side = images.shape[axis]
            parts = []
            for index in range(made):
                window = images.take(range(index * side // made, -(-(index + 1) * side // made)), axis=axis)
                parts.append(window.mean(axis=axis) if self.function == "average" else window.max(axis=axis))
            images = np.stack(parts, axis=axis)
        return images

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"sizes": self.size, "function": POOLS.index(self.function)}

    def exact_result(self, read: Quantized) -> Quantized | None:
        return read if self.function == "max" else None
