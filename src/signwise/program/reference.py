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
    operations: Sequence[Operation], tensors: Tensors, output: int, examples: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """The outputs for a batch of examples.

    Args:
        operations: in order; operation i makes value i + 1.
        tensors: by name.
        output: the number of the value to return.
        examples: value 0, ``(batch, *input_shape)``.

    Example:
        >>> from signwise.program.operations import Relu
        >>> run([Relu(inputs=(0,))], {}, 1, np.array([[-1, 2]], np.float32))
        array([[0., 2.]], dtype=float32)
    """
    for value, computed in values(operations, tensors, examples):
        if value == output:
            result = _dequantized(computed, out_of(operations, output), np.float64)
    return result.astype(np.float32)


def values(
    operations: Sequence[Operation],
    tensors: Tensors,
    examples: npt.NDArray[np.float32],
    precision: type[np.floating[Any]] = np.float64,
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Every value with its number, as soon as it is computed, the input first.

    Args:
        operations: in order.
        tensors: by name.
        examples: value 0.
        precision: of the arithmetic; float32 is quicker, but no longer exact for 8-bit values.

    Yields:
        Numbers and values; 8-bit values as integers, without their scale.
    """
    alive: dict[int, npt.NDArray[Any]] = {0: examples}
    yield 0, examples
    last_reader = {value: index for index, operation in enumerate(operations) for value in operation.inputs}
    for index, operation in enumerate(operations):
        inputs = [_dequantized(alive[value], out_of(operations, value), precision) for value in operation.inputs]
        made = operation.evaluate(inputs, tensors)
        alive[index + 1] = made.astype(np.float32) if operation.out is None else operation.out.to_integers(made)
        yield index + 1, alive[index + 1]
        for value in set(operation.inputs):
            if last_reader[value] == index:
                del alive[value]


def out_of(operations: Sequence[Operation], value: int) -> Quantized | None:
    """The 8-bit type of a value: ``None`` for float32, as the input always is."""
    return operations[value - 1].out if value > 0 else None


def _dequantized(value: npt.NDArray[Any], out: Quantized | None, precision: type[np.floating[Any]]) -> Array:
    wide = value.astype(precision, copy=False)
    return wide if out is None else wide * precision(out.scale)
