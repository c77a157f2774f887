"""Operations on each number or channel by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from signwise.errors import FormatError
from signwise.program.operations.base import (
    Array,
    NativeField,
    Operation,
    Shape,
    Tensors,
    TensorSpec,
    check_flag,
    check_tensor_name,
    per_channel,
    relu_if,
)


@dataclass(frozen=True, kw_only=True)
class Affine(Operation):
    """y = relu(scale * x + bias), scale and bias per channel: a batch norm that follows no layer with weights."""

    kind: ClassVar[str] = "affine"
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
    number: ClassVar[int] = 3

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return relu_if(True, inputs[0])


@dataclass(frozen=True, kw_only=True)
class Add(Operation):
    """y = relu(a + b), for two values of one shape."""

    kind: ClassVar[str] = "add"
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
    """exp(x) / sum(exp(x)) of a vector."""

    kind: ClassVar[str] = "softmax"
    number: ClassVar[int] = 11

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        if len(inputs[0]) != 1:
            raise FormatError(f"needs a vector, but its input has shape {list(inputs[0])}")
        return inputs[0]

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        powers = np.exp(inputs[0] - inputs[0].max(axis=1, keepdims=True))
        made: Array = powers / powers.sum(axis=1, keepdims=True)
        return made
