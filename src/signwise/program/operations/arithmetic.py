"""Two values, or a value and a constant tensor, number by number; and constant tensors by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from signwise.errors import FormatError
from signwise.program.operations.base import (
    Array,
    NativeField,
    Operation,
    Shape,
    Tensors,
    TensorSpec,
    aligned,
    broadcast_shape,
    check_choice,
    check_flag,
    check_sizes,
    check_tensor_name,
    relu_if,
)

# The order is the numbering of the C interface.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
}


@dataclass(frozen=True, kw_only=True)
class Arithmetic(Operation):
    """relu(a ∘ b) with broadcasting, aligned at the last dimension as in numpy, batch aside.

    Args:
        inputs: two values, or one and the ``operand``.
        function: ``"add"``, ``"subtract"``, ``"multiply"``, ``"divide"``, ``"maximum"``, ``"minimum"`` or ``"power"``.
        operand: the name of a constant tensor, the second of the two.
        shape: of the operand.
        swapped: whether the operand is the first of the two instead.
        relu: whether negative results become 0.
    """

    kind: ClassVar[str] = "arithmetic"
    number: ClassVar[int] = 14
    arity: ClassVar[tuple[int, int]] = (1, 2)
    tensor_attributes: ClassVar[tuple[str, ...]] = ("operand",)

    function: str
    operand: str | None = None
    shape: Shape | None = None
    swapped: bool = False
    relu: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("function", self.function, tuple(FUNCTIONS))
        check_tensor_name("operand", self.operand, optional=True)
        check_flag("swapped", self.swapped)
        check_flag("relu", self.relu)
        if (self.operand is None) != (self.shape is None) or (self.operand is None) != (len(self.inputs) == 2):
            raise FormatError("arithmetic takes two values, or one value and an operand with its shape")
        if self.shape is not None:
            check_sizes("shape", self.shape)
        elif self.swapped:
            raise FormatError("swapped belongs to an operand: two values have an order already")

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return broadcast_shape(inputs[0], inputs[1] if self.shape is None else self.shape)

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        if self.operand is not None and self.shape is not None:
            yield TensorSpec("operand", self.operand, np.float32, self.shape)

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return math.prod(output)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        pair = (
            list(inputs) if self.operand is None else [inputs[0], tensors[self.operand][None].astype(inputs[0].dtype)]
        )
        rank = max(part.ndim for part in pair) - 1
        first, second = (aligned(part, rank) for part in (pair[::-1] if self.swapped else pair))
        return relu_if(self.relu, FUNCTIONS[self.function](first, second))

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        fields: dict[str, NativeField] = {"function": list(FUNCTIONS).index(self.function), "relu": self.relu}
        if self.operand is not None:
            fields |= {"table": tensors[self.operand], "sizes": self.shape, "flags": int(self.swapped)}
        return fields


@dataclass(frozen=True, kw_only=True)
class Constant(Operation):
    """The same numbers for every example: a class token, a table of positions.

    Args:
        tensor: its name.
        shape: of the tensor and the value.
    """

    kind: ClassVar[str] = "constant"
    number: ClassVar[int] = 15
    arity: ClassVar[tuple[int, int]] = (0, 0)
    tensor_attributes: ClassVar[tuple[str, ...]] = ("tensor",)

    tensor: str
    shape: Shape

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tensor_name("tensor", self.tensor)
        check_sizes("shape", self.shape)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return self.shape

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        yield TensorSpec("tensor", self.tensor, np.float32, self.shape)

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return math.prod(output)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        """One example, which stands for every one of a batch."""
        held: Array = tensors[self.tensor][None].astype(np.float64)
        return held

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"table": tensors[self.tensor], "sizes": self.shape}
