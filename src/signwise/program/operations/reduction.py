"""Many numbers to one: mean, sum, largest and smallest along dimensions, and where the largest is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from signwise.errors import FormatError
from signwise.program.operations.base import (
    LARGEST_RANK,
    Array,
    NativeField,
    Operation,
    Quantized,
    Shape,
    Tensors,
    ValueType,
    check_axes,
    check_choice,
    check_flag,
    check_integer,
    check_within,
)

# The order is the numbering of the C interface.
FUNCTIONS: dict[str, Callable[..., Any]] = {"mean": np.mean, "sum": np.sum, "max": np.max, "min": np.min}


def reduced_shape(shape: Shape, axes: Sequence[int], keep: bool) -> Shape:
    check_within("axis", axes, shape)
    kept = [1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes]
    return tuple(kept)


@dataclass(frozen=True, kw_only=True)
class Reduce(Operation):
    """Mean, sum, largest or smallest along dimensions.

    Args:
        function: ``"mean"``, ``"sum"``, ``"max"`` or ``"min"``.
        axes: the dimensions, batch aside.
        keep: whether they stay, with size one.
    """

    kind: ClassVar[str] = "reduce"
    number: ClassVar[int] = 23

    function: str
    axes: tuple[int, ...]
    keep: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("function", self.function, tuple(FUNCTIONS))
        check_axes("axes", self.axes)
        check_flag("keep", self.keep)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return reduced_shape(inputs[0], self.axes, self.keep)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        axes = tuple(axis + 1 for axis in self.axes)
        made: Array = FUNCTIONS[self.function](inputs[0], axis=axes, keepdims=self.keep)
        return made

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"function": list(FUNCTIONS).index(self.function), "axes": self.axes, "flags": int(self.keep)}

    def exact_result(self, read: Quantized) -> Quantized | None:
        return read if self.function in ("max", "min") else None


@dataclass(frozen=True, kw_only=True)
class ArgMax(Operation):
    """The position of the first of the largest numbers along one dimension, as a whole number (int32)."""

    kind: ClassVar[str] = "argmax"
    number: ClassVar[int] = 27

    axis: int
    keep: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("axis", self.axis, 0, LARGEST_RANK - 1)
        check_flag("keep", self.keep)
        if self.out is not None:
            raise FormatError("out must be null: positions are whole numbers (int32)")

    def output_type(self, inputs: Sequence[ValueType]) -> ValueType:
        super().output_type(inputs)
        return "int32"

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return reduced_shape(inputs[0], (self.axis,), self.keep)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        found: Any = np.argmax(inputs[0], axis=self.axis + 1, keepdims=self.keep).astype(np.int32)
        return found  # type: ignore[no-any-return]

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"axes": (self.axis,), "flags": int(self.keep)}
