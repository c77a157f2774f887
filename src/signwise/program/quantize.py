"""8-bit activations: what the binary layers read becomes integers, with scales chosen on typical inputs.

A value becomes int8, or uint8 if it is never negative, as after a ReLU. Its scale s minimizes the squared error

    sum over x of (x - s * clamp(round(x / s)))^2

on a sample of the value's numbers for the calibration examples: large scales round coarsely, small ones clip outliers.
The inputs of 3x3 convolutions use 0 to 63 alone (uint6), unless that is refused: sums and differences of four such
numbers fit into a byte, which saves more than half of the products on CPUs that multiply bytes (Winograd, in csrc).

Raw pixels, whole numbers up to 255, always stay exact. Operations that lose nothing on integers pass integers on, such
as the shortcut of a residual block that pools and adds channels of zeros. Everything else (other residual sums, the
first and last layers) stays float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.program import operations as ops
from signwise.program.checks import Input
from signwise.program.operations import Operation, Quantized, Tensors
from signwise.program.reference import values

BATCH = 16
SAMPLE = 2**13  # numbers per value and batch of examples that enter the sample


class Calibrated(NamedTuple):
    """A program with 8-bit results, in parts."""

    inputs: tuple[Input, ...]
    ops: tuple[Operation, ...]
    tensors: Tensors
    outputs: tuple[int, ...]

    def made(self) -> Iterator[tuple[int, Operation]]:
        """Every operation with the number of the value that it makes."""
        return enumerate(self.ops, start=len(self.inputs))


@dataclass
class Range:
    """What calibration has seen of one value."""

    low: float = 0.0
    high: float = 0.0
    whole: bool = True
    samples: list[npt.NDArray[np.float32]] = field(default_factory=list)

    def see(self, numbers: npt.NDArray[np.float32], generator: np.random.Generator) -> None:
        self.low = min(self.low, float(numbers.min()))
        self.high = max(self.high, float(numbers.max()))
        self.whole = self.whole and bool(np.array_equal(numbers, np.rint(numbers)))
        flat = numbers.reshape(-1)
        self.samples.append(flat if flat.size <= SAMPLE else generator.choice(flat, SAMPLE))

    def quantized(self, six_bits: bool = False) -> Quantized:
        """The integers with the least squared error on the sample.

        Args:
            six_bits: use 0 to 63 alone where no number is negative.

        Example:
            >>> seen = Range()
            >>> seen.see(np.arange(256, dtype=np.float32), np.random.default_rng(0))
            >>> seen.quantized()
            Quantized(type='uint8', scale=1.0)
        """
        signed = self.low < 0
        sample = np.concatenate(self.samples).astype(np.float64)
        if not signed and self.whole and 0 < self.high <= 255:
            return Quantized(type="uint8", scale=1.0)
        kind: Literal["uint8", "int8", "uint6"] = "int8" if signed else "uint6" if six_bits else "uint8"
        low, high = ops.LIMITS[kind]
        largest = max(self.high / high, self.low / low if signed else 0.0)
        if largest < 1e-28:
            largest = 1.0  # the value is always (next to) zero: any scale will do
        # Down to a quarter of the range: beyond that, clipping costs more than finer steps bring.
        scales = [float(np.float32(largest * part / 64)) for part in range(16, 65)]
        errors = [
            float(np.square(sample - scale * np.clip(np.rint(sample / scale), low, high)).sum()) for scale in scales
        ]
        # Break ties upwards, so that unseen values clip less.
        best = min(zip(errors, [-scale for scale in scales], strict=True))
        return Quantized(type=kind, scale=-best[1])


def quantize(
    inputs: Sequence[Input],
    operations: Sequence[ops.Operation],
    tensors: Tensors,
    outputs: Sequence[int],
    examples: Sequence[npt.NDArray[Any]],
    *,
    six_bit_inputs: bool = True,
) -> Calibrated:
    """The same operations with 8-bit integers where binary layers read.

    Args:
        inputs: of the program.
        operations: with float32 results.
        tensors: by name.
        outputs: the numbers of the program's outputs, which stay float32.
        examples: typical inputs, ``(count, *shape)`` for each.
        six_bit_inputs: give the inputs of 3x3 convolutions six bits.
    """
    if len(examples[0]) == 0:
        raise SignwiseError("calibration needs at least one example")
    if any(operation.out is not None for operation in operations):
        raise SignwiseError("the program has 8-bit activations already: quantize the float32 program")
    if not any(operation.integer_inputs for operation in operations):
        raise SignwiseError("8-bit activations are for binary layers, and the program has none: keep it in float32")
    floats = _with_quantizable_inputs(Calibrated(tuple(inputs), tuple(operations), tensors, tuple(outputs)))
    types = _calibrated_types(floats, examples, six_bit_inputs)
    _spread_backward_(floats, types)
    _spread_forward_(floats, types)
    return floats._replace(ops=tuple(replace(operation, out=types.get(value)) for value, operation in floats.made()))


def _with_quantizable_inputs(program: Calibrated) -> Calibrated:
    """Inputs are float32; where a binary layer reads one, an affine map that changes nothing makes it integers."""
    for number in range(len(program.inputs)):
        if any(number in operation.integer_inputs for operation in program.ops):
            program = _with_identity(program, number)
    return program


def _with_identity(program: Calibrated, number: int) -> Calibrated:
    """The program with an affine map after one input, which all others read instead."""
    first, tensors = len(program.inputs), program.tensors
    scale, bias = _free_name("input.scale", tensors), _free_name("input.bias", tensors)
    identity = ops.Affine(inputs=(number,), scale=scale, bias=bias)

    def moved(value: int) -> int:
        return first if value == number else value if value < first else value + 1

    shifted = [replace(operation, inputs=tuple(map(moved, operation.inputs))) for operation in program.ops]
    channels = program.inputs[number].shape[0]
    added = {scale: np.ones(channels, np.float32), bias: np.zeros(channels, np.float32)}
    outputs = tuple(value if value < first else value + 1 for value in program.outputs)
    return Calibrated(program.inputs, (identity, *shifted), {**tensors, **added}, outputs)


def _free_name(name: str, tensors: Tensors) -> str:
    free, number = name, 1
    while free in tensors:
        number += 1
        free = f"{name}.{number}"
    return free


def _calibrated_types(
    program: Calibrated, examples: Sequence[npt.NDArray[Any]], six_bit_inputs: bool
) -> dict[int, Quantized]:
    ranges = {value: Range() for operation in program.ops for value in operation.integer_inputs}
    generator = np.random.default_rng(0)
    for start in range(0, len(examples[0]), BATCH):
        batch = [array[start : start + BATCH] for array in examples]
        for value, numbers in values(program.ops, program.tensors, batch, np.float32):
            if value in ranges:
                if not np.isfinite(numbers).all():
                    raise SignwiseError(f"value {value} of the program is not finite for a calibration example")
                ranges[value].see(numbers, generator)
    gaining = {operation.inputs[0] for operation in program.ops if operation.gains_from_six_bits}
    found = {value: seen.quantized(six_bit_inputs and value in gaining) for value, seen in ranges.items()}
    # Signs need no calibration: -1 and +1 are integers already.
    signs = {value: operation.exact_type for value, operation in program.made() if isinstance(operation, ops.Sign)}
    return found | {value: exact for value, exact in signs.items() if value in found}


def _spread_backward_(program: Calibrated, types: dict[int, Quantized]) -> None:
    """Make integers before operations that only move numbers, where nothing else reads the value."""
    readers = Counter(value for operation in program.ops for value in operation.inputs)
    fixed = {*range(len(program.inputs)), *program.outputs}
    for value, operation in reversed(list(program.made())):
        made = types.get(value)
        if made is not None and operation.exact_result(made) == made:
            for read in operation.inputs:
                if read not in fixed and readers[read] == 1:
                    types.setdefault(read, made)


def _spread_forward_(program: Calibrated, types: dict[int, Quantized]) -> None:
    """Keep integers where an operation on integers gives integers without loss."""
    for value, operation in program.made():
        inputs = {types.get(read) for read in operation.inputs}
        if len(inputs) == 1 and value not in types and value not in program.outputs:
            read = inputs.pop()
            exact = None if read is None else operation.exact_result(read)
            if exact is not None:
                types[value] = exact
