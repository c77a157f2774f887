"""Operations that move numbers without changing them: other shapes, more channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from signwise.errors import FormatError
from signwise.program.operations.base import (
    LARGEST_SIZE,
    Array,
    NativeField,
    Operation,
    Shape,
    Tensors,
    check_integer,
)


@dataclass(frozen=True, kw_only=True)
class PadChannels(Operation):
    """Channels of zeros before and after the input's own: a shortcut without parameters."""

    kind: ClassVar[str] = "pad_channels"
    number: ClassVar[int] = 8
    moves_numbers: ClassVar[bool] = True

    before: int
    after: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("before", self.before, 0, LARGEST_SIZE)
        check_integer("after", self.after, 0, LARGEST_SIZE)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, *rest = inputs[0]
        return (self.before + channels + self.after, *rest)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return np.pad(inputs[0], [(0, 0), (self.before, self.after), *[(0, 0)] * (inputs[0].ndim - 2)])

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"before": self.before, "after": self.after}


@dataclass(frozen=True, kw_only=True)
class Flatten(Operation):
    """``(channels, height, width)`` to ``(channels * height * width,)``."""

    kind: ClassVar[str] = "flatten"
    number: ClassVar[int] = 9
    moves_numbers: ClassVar[bool] = True

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return (math.prod(inputs[0]),)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return inputs[0].reshape(len(inputs[0]), math.prod(inputs[0].shape[1:]))


@dataclass(frozen=True, kw_only=True)
class Concat(Operation):
    """Values joined along their first dimension, the channels."""

    kind: ClassVar[str] = "concat"
    number: ClassVar[int] = 10
    arity: ClassVar[tuple[int, int]] = (2, 64)
    moves_numbers: ClassVar[bool] = True

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        if any(shape[1:] != inputs[0][1:] for shape in inputs):
            raise FormatError(f"joins shapes {[list(shape) for shape in inputs]}, which differ beyond the channels")
        return (sum(shape[0] for shape in inputs), *inputs[0][1:])

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return np.concatenate(inputs, axis=1)
