"""A program operation by operation: the rows of ``signwise inspect`` and of ``signwise.summary``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from signwise.program.operations import Operation, Shape, Tensors, Weighted


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation.

    Args:
        value: the number of its result.
        op: its kind.
        layer: the module of the model that it came from, empty where it has no tensors.
        shape: of the result.
        type: of the result: float32 or an 8-bit type.
        bits: per weight, ``None`` without weights.
        weights: how many it has.
        bytes: of all tensors that it is the first to use.
    """

    value: int
    op: str
    layer: str
    shape: Shape
    type: str
    bits: int | None
    weights: int
    bytes: int


def rows(operations: Sequence[Operation], shapes: Sequence[Shape], tensors: Tensors) -> list[Row]:
    """One row per operation; their bytes add up to the bytes of all tensors."""
    seen: set[str] = set()
    found = []
    for value, operation in enumerate(operations, start=1):
        names = operation.tensor_names
        own = set(names.values()) - seen
        seen |= own
        bits, weights = None, 0
        if isinstance(operation, Weighted):
            bits, weights = operation.bits, math.prod(operation.weight_shape(shapes[operation.inputs[0]]))
        found.append(
            Row(
                value=value,
                op=operation.kind,
                # The compiler names tensors MODULE.ATTRIBUTE or, where that repeats, MODULE.ATTRIBUTE.NUMBER.
                layer=next((name.rpartition(f".{attribute}")[0] for attribute, name in names.items()), ""),
                shape=shapes[value],
                type="float32" if operation.out is None else operation.out.type,
                bits=bits,
                weights=weights,
                bytes=sum(tensors[name].nbytes for name in own),
            )
        )
    return found
