"""Operations evaluated with numpy alone: what the native kernels are tested against, and what replaces them.

Each operation defines its own meaning (``evaluate``); this module passes values from one to the next. Sums are taken in
float64, where 8-bit integers times a float32 scale are exact, so one path serves float32 and 8-bit programs alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.program.operations import Array, Operation, Quantized, Tensors


def run(
    operations: Sequence[Operation], tensors: Tensors, outputs: Sequence[int], inputs: Sequence[npt.NDArray[Any]]
) -> list[npt.NDArray[Any]]:
    """The outputs for a batch of examples.

    Args:
        operations: in order; each makes one more value.
        tensors: by name.
        outputs: the numbers of the values to return.
        inputs: the first values, ``(batch, *shape)`` each, in float32 or int32.

    Example:
        >>> from signwise.program.operations import Relu
        >>> run([Relu(inputs=(0,))], {}, [1], [np.array([[-1, 2]], np.float32)])
        [array([[0., 2.]], dtype=float32)]
    """
    found: dict[int, npt.NDArray[Any]] = {}
    for value, computed in values(operations, tensors, inputs):
        if value in outputs:
            numbers = _dequantized(computed, out_of(operations, value - len(inputs)), np.float64)
            found[value] = computed if computed.dtype == np.int32 else numbers.astype(np.float32)
    return [found[value] for value in outputs]


def values(
    operations: Sequence[Operation],
    tensors: Tensors,
    inputs: Sequence[npt.NDArray[Any]],
    precision: type[np.floating[Any]] = np.float64,
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Every value with its number, as soon as it is computed, the inputs first.

    Args:
        operations: in order.
        tensors: by name.
        inputs: the first values.
        precision: of the arithmetic; float32 is quicker, but no longer exact for 8-bit values.

    Yields:
        Numbers and values; 8-bit values as integers, without their scale.
    """
    alive: dict[int, npt.NDArray[Any]] = dict(enumerate(inputs))
    yield from alive.items()
    first, batch = len(inputs), len(inputs[0])
    last_reader = {value: index for index, operation in enumerate(operations) for value in operation.inputs}
    for index, operation in enumerate(operations):
        read = [_dequantized(alive[value], out_of(operations, value - first), precision) for value in operation.inputs]
        # Infinities and NaN go their way, as in the kernels.
        with np.errstate(all="ignore"):
            made = operation.evaluate(read, tensors)
            if not read:  # a constant, the same for every example
                made = np.broadcast_to(made, (batch, *made.shape[1:]))
            if operation.out is not None:
                made = operation.out.to_integers(made)
            elif made.dtype != np.int32:
                made = made.astype(np.float32)
        alive[first + index] = made
        yield first + index, made
        for value in set(operation.inputs):
            if last_reader[value] == index:
                del alive[value]


def out_of(operations: Sequence[Operation], index: int) -> Quantized | None:
    """The 8-bit type of the result of an operation: ``None`` for float32, and for the inputs, which lie below 0."""
    return operations[index].out if index >= 0 else None


def _dequantized(value: npt.NDArray[Any], out: Quantized | None, precision: type[np.floating[Any]]) -> Array:
    if value.dtype == np.int32:  # tokens
        return value
    wide = value.astype(precision, copy=False)
    return wide if out is None else wide * precision(out.scale)
