"""Products of values with each other, attention, and tables that token numbers look up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from signwise.errors import FormatError, SignwiseError
from signwise.program.operations.base import (
    LARGEST_SIZE,
    Array,
    NativeField,
    Operation,
    Shape,
    Tensors,
    TensorSpec,
    ValueType,
    aligned,
    broadcast_shape,
    check_flag,
    check_integer,
    check_number,
    check_sizes,
    check_tensor_name,
)
from signwise.program.operations.elementwise import softmax


@dataclass(frozen=True, kw_only=True)
class Matmul(Operation):
    """scale * A @ B over the last two dimensions; the dimensions before them broadcast.

    Args:
        transpose_first, transpose_second: whether the last two dimensions of A or B swap first.
        scale: a factor, such as 1 / sqrt(width).
    """

    kind: ClassVar[str] = "matmul"
    number: ClassVar[int] = 16
    arity: ClassVar[tuple[int, int]] = (2, 2)
    number_attributes: ClassVar[tuple[str, ...]] = ("scale",)

    transpose_first: bool = False
    transpose_second: bool = False
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("transpose_first", self.transpose_first)
        check_flag("transpose_second", self.transpose_second)
        check_number("scale", self.scale)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        first, second = inputs
        if len(first) < 2 or len(second) < 2:
            raise FormatError(f"needs two matrices, but its inputs have shapes {list(first)} and {list(second)}")
        rows, inner = first[-2:][::-1] if self.transpose_first else first[-2:]
        other, columns = second[-2:][::-1] if self.transpose_second else second[-2:]
        if inner != other:
            raise FormatError(f"multiplies rows of {inner} numbers by columns of {other}")
        return (*broadcast_shape(first[:-2], second[:-2]), rows, columns)

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return inputs[0][-2 if self.transpose_first else -1] * math.prod(output)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        rank = max(part.ndim for part in inputs) - 1
        first, second = (aligned(part, rank) for part in inputs)
        if self.transpose_first:
            first = first.swapaxes(-1, -2)
        if self.transpose_second:
            second = second.swapaxes(-1, -2)
        product: Array = first @ second * self.scale
        return product

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"flags": self.transpose_first | self.transpose_second << 1, "numbers": (self.scale,)}


@dataclass(frozen=True, kw_only=True)
class Attention(Operation):
    """softmax(scale * Q Kᵀ + mask) V over ``(..., heads, tokens, width)``.

    Args:
        inputs: Q, K and V, and optionally a value to add as a mask. K and V may have fewer heads than Q, which then
            share them in order.
        scale: usually 1 / sqrt(width).
        causal: whether token i sees the tokens up to i alone, counted from the first.
        mask: the name of a constant tensor to add before the softmax, broadcast to ``(..., heads, tokens, tokens)``.
        mask_shape: of that tensor.
    """

    kind: ClassVar[str] = "attention"
    number: ClassVar[int] = 26
    arity: ClassVar[tuple[int, int]] = (3, 4)
    tensor_attributes: ClassVar[tuple[str, ...]] = ("mask",)
    number_attributes: ClassVar[tuple[str, ...]] = ("scale",)

    scale: float
    causal: bool = False
    mask: str | None = None
    mask_shape: Shape | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("scale", self.scale)
        check_flag("causal", self.causal)
        check_tensor_name("mask", self.mask, optional=True)
        if (self.mask is None) != (self.mask_shape is None) or (self.mask is not None and len(self.inputs) == 4):
            raise FormatError("attention takes a mask tensor with its shape, or a mask as fourth value, or neither")
        if self.mask_shape is not None:
            check_sizes("mask_shape", self.mask_shape)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        query, key, value, *masks = inputs
        listed = f"{list(query)}, {list(key)} and {list(value)}"
        if not len(query) == len(key) == len(value) >= 2:
            raise FormatError(f"needs Q, K and V of (..., heads, tokens, width), got {listed}")
        fits = query[:-3] == key[:-3] and key[:-1] == value[:-1] and query[-1] == key[-1]
        if not fits or (len(query) > 2 and query[-3] % key[-3]):
            raise FormatError(f"Q, K and V do not fit: {listed}")
        scores = (*query[:-1], key[-2])
        mask = masks[0] if masks else self.mask_shape
        if mask is not None and (len(mask) > len(scores) or broadcast_shape(mask, scores) != scores):
            raise FormatError(f"a mask of shape {list(mask)} does not fit scores of shape {list(scores)}")
        return (*query[:-1], value[-1])

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        if self.mask is not None and self.mask_shape is not None:
            yield TensorSpec("mask", self.mask, np.float32, self.mask_shape)

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return math.prod(inputs[0][:-1]) * inputs[1][-2] * (inputs[0][-1] + inputs[2][-1] + 1)

    def padded_size(self, inputs: Sequence[Shape]) -> int:
        return math.prod(inputs[0][:-1]) * inputs[1][-2]  # the scores

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        query, key, value, *masks = inputs
        if query.ndim > 3 and query.shape[-3] != key.shape[-3]:
            share = query.shape[-3] // key.shape[-3]
            key, value = key.repeat(share, axis=-3), value.repeat(share, axis=-3)
        scores = query @ key.swapaxes(-1, -2) * self.scale
        if self.mask is not None:
            scores = scores + tensors[self.mask].astype(scores.dtype)
        if masks:
            scores = scores + aligned(masks[0], scores.ndim - 1)
        if self.causal:
            scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
        mixed: Array = softmax(scores, -1) @ value
        return mixed

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        fields: dict[str, NativeField] = {"flags": int(self.causal), "numbers": (self.scale,)}
        if self.mask is not None:
            fields |= {"table": tensors[self.mask], "sizes": self.mask_shape}
        return fields


@dataclass(frozen=True, kw_only=True)
class Embedding(Operation):
    """One row of a table per whole number: tokens ``(...)`` to ``(..., width)``.

    Args:
        weight: the name of the table, float32 ``(rows, width)``.
        rows: how many; a number below 0 or beyond the last row is refused when the program runs.
        width: numbers per row.
    """

    kind: ClassVar[str] = "embedding"
    number: ClassVar[int] = 25
    tensor_attributes: ClassVar[tuple[str, ...]] = ("weight",)

    weight: str
    rows: int
    width: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tensor_name("weight", self.weight)
        check_integer("rows", self.rows, 1, LARGEST_SIZE)
        check_integer("width", self.width, 1, LARGEST_SIZE)

    def output_type(self, inputs: Sequence[ValueType]) -> ValueType:
        if inputs[0] != "int32":
            raise FormatError("looks up whole numbers (int32), but its input is float32")
        return "float32"

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return (*inputs[0], self.width)

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        yield TensorSpec("weight", self.weight, np.float32, (self.rows, self.width))

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return math.prod(output)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        tokens = inputs[0].astype(np.int64)
        outside = tokens[(tokens < 0) | (tokens >= self.rows)]
        if outside.size:
            raise SignwiseError(f"token {outside[0]} is not a row of {self.weight!r}, which has {self.rows}")
        looked_up: Array = tensors[self.weight].astype(np.float64)[tokens]
        return looked_up

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"weight": tensors[self.weight], "bits": 32, "sizes": (self.rows,)}
