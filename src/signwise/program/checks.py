"""Whether the operations of a program fit together: values, shapes, tensors and sizes.

Everything is checked before anything runs. The sizes that a reader will need follow from numbers alone, so a hostile
file costs no more memory than its own bytes. csrc checks each operation again (ranks, sizes, windows), so keep both in
step; the sums over a whole program are counted here alone.
"""

from __future__ import annotations

import math
import reprlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from signwise.errors import FormatError
from signwise.program import operations as ops
from signwise.program.operations import Shape, Tensors, ValueType

LARGEST_OPERATIONS = 4096
LARGEST_ENDS = 256  # inputs, and outputs: a decoder has two of each per block
LARGEST_ACTIVATIONS = 2**28  # numbers per example, padding included, over all values: 1 GiB of float32
LARGEST_WORK = 2**40  # additions or multiplications per example: a hundred times a ResNet-152
LARGEST_READERS = 64  # operations that share one weight: each may keep a copy in the order of its kernels
LARGEST_TAPS = 2**22  # kernel positions of all convolutions: each is planned
PREPARED_BYTES, PREPARED_RATIO = 2**26, 256  # most bytes in the order of the kernels: this, and so many per tensor byte


@dataclass(frozen=True, kw_only=True)
class Input:
    """One input of a program.

    Args:
        shape: batch aside: ``(channels, height, width)``, ``(tokens, features)``, ``(features,)``, ``()``.
        type: ``"float32"``, or ``"int32"`` for token numbers.
    """

    shape: Shape
    type: ValueType = "float32"

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple) or len(self.shape) > ops.LARGEST_RANK:
            raise FormatError(f"input shape must have at most {ops.LARGEST_RANK} sizes, got {reprlib.repr(self.shape)}")
        for size in self.shape:
            ops.check_integer("input shape", size, 1, LARGEST_ACTIVATIONS)
        ops.check_choice("input type", self.type, ("float32", "int32"))


class Expense:
    """What one example of a program takes, added up step by step and refused where it exceeds the limits."""

    def __init__(self) -> None:
        self._activations = 0
        self._work = 0

    def add(self, activations: int, work: int = 0) -> None:
        """Count numbers of values, and additions or multiplications."""
        self._activations += activations
        self._work += work
        if self._activations > LARGEST_ACTIVATIONS:
            raise FormatError(f"values exceed the limit of {LARGEST_ACTIVATIONS} numbers per example")
        if self._work > LARGEST_WORK:
            raise FormatError(f"exceeds the limit of {LARGEST_WORK} additions or multiplications per example")


def check_ends(inputs: Sequence[Input], outputs: Sequence[int], operations: Sequence[ops.Operation]) -> None:
    """A program has inputs and outputs, no more than readers allow, and the outputs are values."""
    for what, listed in (("inputs", inputs), ("outputs", outputs)):
        if not 1 <= len(listed) <= LARGEST_ENDS:
            raise FormatError(f"a program has 1 to {LARGEST_ENDS} {what}, got {len(listed)}")
    for output in outputs:
        ops.check_integer("output", output, 0, len(inputs) + len(operations) - 1)


def infer_shapes(inputs: Sequence[Input], operations: Sequence[ops.Operation]) -> tuple[Shape, ...]:
    """The shape of every value, batch aside; an operation that does not fit is refused by its number.

    Args:
        inputs: the first values.
        operations: in order; each makes one more value.

    Returns:
        One shape per value, the inputs' first.

    Example:
        >>> infer_shapes([Input(shape=(3, 8, 8))], [ops.Flatten(inputs=(0,)), ops.Relu(inputs=(1,))])
        ((3, 8, 8), (192,), (192,))
    """
    if not len(operations) <= LARGEST_OPERATIONS:
        raise FormatError(f"a program may have {LARGEST_OPERATIONS} operations, got {len(operations)}")
    shapes: list[Shape] = [given.shape for given in inputs]
    types: list[ValueType] = [given.type for given in inputs]
    taps = 0
    expense = Expense()
    expense.add(sum(map(math.prod, shapes)))
    for index, operation in enumerate(operations):
        where = f"operation {index} ({operation.kind})"
        for value in operation.inputs:
            if value >= len(shapes):
                raise FormatError(f"{where}: reads value {value}, which is not made before it")
        read = [shapes[value] for value in operation.inputs]
        try:
            types.append(operation.output_type([types[value] for value in operation.inputs]))
            shape = operation.output_shape(read)
            if len(shape) > ops.LARGEST_RANK:
                raise FormatError(f"a result of shape {list(shape)}, the limit is {ops.LARGEST_RANK} dimensions")
            expense.add(math.prod(shape) + operation.padded_size(read), operation.work(read, shape))
            taps += math.prod(operation.kernel) if isinstance(operation, ops.Conv | ops.ConvTranspose) else 0
            if taps > LARGEST_TAPS:
                raise FormatError(f"the kernels of all convolutions exceed the limit of {LARGEST_TAPS} positions")
        except FormatError as error:
            raise FormatError(f"{where}: {error}") from None
        shapes.append(shape)
    return tuple(shapes)


def infer_types(inputs: Sequence[Input], operations: Sequence[ops.Operation]) -> tuple[ValueType, ...]:
    """The type of every value, 8-bit integers aside: float32, or int32 for token numbers."""
    types: list[ValueType] = [given.type for given in inputs]
    for operation in operations:
        types.append(operation.output_type([types[value] for value in operation.inputs]))
    return tuple(types)


def check_tensors(operations: Sequence[ops.Operation], shapes: Sequence[Shape], tensors: Tensors) -> None:
    """Every tensor that an operation needs is there, with the right type and shape, finite, pad bits 0; none is spare.

    Args:
        operations: in order.
        shapes: of every value, from :func:`infer_shapes`.
        tensors: by name.
    """
    used: set[str] = set()
    first = len(shapes) - len(operations)  # the value that the first operation makes
    prepared, largest = 0, PREPARED_BYTES + PREPARED_RATIO * sum(tensor.nbytes for tensor in tensors.values())
    readers: Counter[str] = Counter()
    for index, operation in enumerate(operations):
        inputs = [shapes[value] for value in operation.inputs]
        where = f"operation {index} ({operation.kind})"
        for attribute, name, dtype, shape in operation.tensors(inputs):
            if name not in tensors:
                raise FormatError(f"{where}: {attribute} {name!r} is missing from the file")
            tensor = tensors[name]
            if tensor.dtype != dtype or tensor.shape != shape:
                expected, found = f"{np.dtype(dtype)} {list(shape)}", f"{tensor.dtype} {list(tensor.shape)}"
                raise FormatError(f"{where}: {attribute} {name!r} must be {expected}, got {found}")
            used.add(name)
        prepared += prepared_bytes(operation, inputs, shapes[first + index])
        if prepared > largest:
            raise FormatError(f"{where}: the program would take more than {largest} bytes once it is prepared to run")
        if isinstance(operation, ops.Weighted):
            readers[operation.weight] += 1
            if readers[operation.weight] > LARGEST_READERS:
                raise FormatError(f"more than {LARGEST_READERS} operations share the weight {operation.weight!r}")
            if operation.bits == 1:
                _check_pad_bits(where, operation, inputs[0], tensors)
    if unused := sorted(set(tensors) - used):
        raise FormatError(f"no operation uses tensor {unused[0]!r}")
    for name, tensor in tensors.items():
        if tensor.dtype == np.float32 and not np.isfinite(tensor).all():
            raise FormatError(f"tensor {name!r} holds a number that is not finite")


def prepared_bytes(operation: ops.Operation, inputs: Sequence[Shape], output: Shape) -> int:
    """The most bytes that an operation keeps in the order of its kernels, whatever the CPU and the batch.

    Follows the layouts in csrc: index words where tables pay (``lookup/weights.cpp``), else float32 weights in half
    blocks of six filters per group, of which a depthwise layer fills one.

    Example:
        >>> layer = ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=8, kernel=(3, 3), groups=8)
        >>> prepared_bytes(layer, [(8, 5, 5)], (8, 3, 3)) >= 6 * 4 * 8 * 9
        True
    """
    kept = 256 + sum(np.dtype(dtype).itemsize * math.prod(shape) for _, _, dtype, shape in operation.tensors(inputs))
    if isinstance(operation, ops.AvgPool):
        top, _, bottom, _ = operation.padding
        rows = 1 if operation.count_include_pad else min(output[1], 1 + top + bottom)  # that differ
        return kept + 8 * output[1] + 4 * rows * output[2]
    if not isinstance(operation, ops.Weighted):
        return kept
    filters, terms = operation.weight_shape(inputs[0])[0], operation.terms(inputs[0])
    groups, taps = 1, 1
    if isinstance(operation, ops.Conv | ops.ConvTranspose):
        groups, taps = operation.groups, math.prod(operation.kernel)
    if operation.bits == 1 and terms // taps >= 3 and filters // groups >= 20 and taps <= 128:
        return 8 * kept + 128 * filters
    half_blocks = groups * -(-filters // groups // 6)
    return 4 * 6 * half_blocks * terms + 16 * kept + 32 * filters


def _check_pad_bits(where: str, operation: ops.Weighted, read: Shape, tensors: Tensors) -> None:
    used_bits = operation.terms(read) % 8
    # One meaning, one file: bits beyond the last weight of a row are zero.
    if used_bits and (tensors[operation.weight][:, -1] >> used_bits).any():
        raise FormatError(f"{where}: weight {operation.weight!r} has pad bits that are not zero")
