"""Operations on each number or channel by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from signwise.errors import FormatError
from signwise.program.operations.base import (
    LARGEST_RANK,
    Array,
    NativeField,
    Operation,
    Shape,
    Tensors,
    TensorSpec,
    check_flag,
    check_integer,
    check_tensor_name,
    check_within,
    need_channels,
    per_channel,
    relu_if,
)


@dataclass(frozen=True, kw_only=True)
class Affine(Operation):
    """y = relu(scale * x + bias), scale and bias per channel: a batch norm that follows no layer with weights."""

    kind: ClassVar[str] = "affine"
    since: ClassVar[int] = 1
    number: ClassVar[int] = 2
    tensor_attributes: ClassVar[tuple[str, ...]] = ("scale", "bias")

    scale: str
    bias: str
    relu: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tensor_name("scale", self.scale)
        check_tensor_name("bias", self.bias)
        check_flag("relu", self.relu)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return need_channels(inputs[0])

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        yield TensorSpec("scale", self.scale, np.float32, inputs[0][:1])
        yield TensorSpec("bias", self.bias, np.float32, inputs[0][:1])

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        first = inputs[0]
        scaled = per_channel(tensors[self.scale], first) * first
        return relu_if(self.relu, scaled + per_channel(tensors[self.bias], first))

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"scale": tensors[self.scale], "bias": tensors[self.bias], "relu": self.relu}


@dataclass(frozen=True, kw_only=True)
class Relu(Operation):
    """y = max(x, 0)."""

    kind: ClassVar[str] = "relu"
    since: ClassVar[int] = 1
    number: ClassVar[int] = 3

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return relu_if(True, inputs[0])


@dataclass(frozen=True, kw_only=True)
class Add(Operation):
    """y = relu(a + b), for two values of one shape."""

    kind: ClassVar[str] = "add"
    since: ClassVar[int] = 1
    number: ClassVar[int] = 4
    arity: ClassVar[tuple[int, int]] = (2, 2)

    relu: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("relu", self.relu)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        first, second = inputs
        if second != first:
            raise FormatError(f"adds shapes {list(first)} and {list(second)}, which differ")
        return first

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return relu_if(self.relu, inputs[0] + inputs[1])

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"relu": self.relu}


@dataclass(frozen=True, kw_only=True)
class Softmax(Operation):
    """exp(x) / sum(exp(x)) along one dimension, or its logarithm.

    Args:
        axis: the dimension, batch aside.
        log: whether the result is the logarithm.
    """

    kind: ClassVar[str] = "softmax"
    since: ClassVar[int] = 1
    added_attributes: ClassVar[tuple[str, ...]] = ("axis", "log")
    number: ClassVar[int] = 11

    axis: int = 0
    log: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("axis", self.axis, 0, LARGEST_RANK - 1)
        check_flag("log", self.log)

    def version(self, inputs: Sequence[Shape]) -> int:
        return super().version(inputs) if len(inputs[0]) == 1 else 2

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        check_within("axis", (self.axis,), inputs[0])
        return inputs[0]

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return softmax(inputs[0], self.axis + 1, self.log)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"axes": (self.axis,), "flags": int(self.log)} if self.axis or self.log else {}


def softmax(values: Array, axis: int, log: bool = False) -> Array:
    """exp(x) / sum(exp(x)) along an axis; the largest is subtracted first, so that nothing overflows."""
    below = values - values.max(axis=axis, keepdims=True)
    powers = np.exp(below)
    total = powers.sum(axis=axis, keepdims=True)
    made: Array = below - np.log(total) if log else powers / total
    return made
