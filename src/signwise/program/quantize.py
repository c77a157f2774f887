"""8-bit activations: what the binary layers read is kept as integers, with scales chosen on typical inputs.

A value becomes int8, or uint8 if it is never negative, as after a ReLU. Its scale s is the one with the least squared
error

    sum over x of (x - s * clamp(round(x / s)))^2

on a sample of what the network computes for the calibration examples: large scales round coarsely, small ones cut off
outliers. What a 3x3 convolution reads uses 0 to 63 alone (uint6), unless that is refused: sums and differences of four
such numbers fit into a byte, which saves more than half of the products on CPUs that multiply bytes (csrc/bytes/).
Raw pixels, whole numbers up to 255, always stay exact. What is made from integers without any loss is integers, too, as
the shortcut of a residual block that pools and adds channels of zeros. Everything else (other residual sums, the first
and last layers) stays float32.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.program import operations as ops
from signwise.program.program import Program
from signwise.program.reference import values

BATCH = 16
SAMPLE = 2**13  # numbers of each value that are looked at, for each batch of examples
# Operations that only pick, move or join numbers: done on integers, they give the same integers.
MOVING = (ops.MaxPool, ops.Flatten, ops.PadChannels, ops.Concat)


@dataclass
class Range:
    """What was seen of one value."""

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

    def quantized(self, narrow: bool = False) -> ops.Quantized:
        """The integers with the least squared error on the sample.

        Args:
            narrow: whether six bits are to be enough, where no number is negative.

        Example:
            >>> seen = Range()
            >>> seen.see(np.arange(256, dtype=np.float32), np.random.default_rng(0))
            >>> seen.quantized()
            Quantized(type='uint8', scale=1.0)
        """
        signed = self.low < 0
        sample = np.concatenate(self.samples).astype(np.float64)
        if not signed and self.whole and 0 < self.high <= 255:
            return ops.Quantized(type="uint8", scale=1.0)
        kind: Literal["uint8", "int8", "uint6"] = "int8" if signed else "uint6" if narrow else "uint8"
        low, high = ops.LIMITS[kind]
        largest = max(self.high / high, self.low / low if signed else 0.0)
        if largest < 1e-28:
            largest = 1.0  # the value is always (next to) zero: any scale will do
        # Down to a quarter of the range: beyond that, clipping costs more than finer steps bring.
        scales = [float(np.float32(largest * part / 64)) for part in range(16, 65)]
        errors = [
            float(np.square(sample - scale * np.clip(np.rint(sample / scale), low, high)).sum()) for scale in scales
        ]
        # The largest of equally good ones: what was not in the sample is cut off last.
        best = min(zip(errors, [-scale for scale in scales], strict=True))
        return ops.Quantized(type=kind, scale=-best[1])


def quantize(program: Program, calibrate: npt.NDArray[Any], *, narrow: bool = True) -> Program:
    """The same program with 8-bit integers where binary layers read.

    Args:
        program: with float32 activations; no binary layer may read its input directly.
        calibrate: typical examples, ``(count, *program.input_shape)``; a hundred are plenty.
        narrow: let what 3x3 convolutions read have six bits.

    Returns:
        A program whose binary layers add integers.
    """
    if len(calibrate) == 0:
        raise SignwiseError("calibrate must hold at least one example")
    wanted = {value for operation in program.ops for value in _read_as_integers(operation)}
    if not wanted:
        raise SignwiseError("activations='int8' is for binary layers, and the model has none: compile it with float32")
    ranges = {value: Range() for value in wanted}
    generator = np.random.default_rng(0)
    for start in range(0, len(calibrate), BATCH):
        for value, numbers in values(program, calibrate[start : start + BATCH], np.float32):
            if value in wanted:
                if not np.isfinite(numbers).all():
                    raise SignwiseError(f"value {value} of the program is not finite for a calibration example")
                ranges[value].see(numbers, generator)
    saving = {operation.inputs[0] for operation in program.ops if _saves_products(operation)}
    kept = {value: seen.quantized(narrow=narrow and value in saving) for value, seen in ranges.items()}
    _spread_backward_(program, kept)
    _spread_forward_(program, kept)
    operations = tuple(replace(operation, out=kept.get(index + 1)) for index, operation in enumerate(program.ops))
    return replace(program, ops=operations)


def _read_as_integers(operation: ops.Operation) -> Iterable[int]:
    return operation.inputs[:1] if isinstance(operation, ops.Weighted) and operation.bits == 1 else ()


def _saves_products(operation: ops.Operation) -> bool:
    return (
        isinstance(operation, ops.Conv)
        and operation.bits == 1
        and (operation.kernel, operation.dilation) == ((3, 3), (1, 1))
        and operation.stride in ((1, 1), (2, 2))
    )


def _spread_backward_(program: Program, kept: dict[int, ops.Quantized]) -> None:
    """Let a value be integers already before operations that only move numbers, if nothing else reads it."""
    reads = [value for operation in program.ops for value in operation.inputs]
    for index in reversed(range(len(program.ops))):
        operation = program.ops[index]
        if isinstance(operation, MOVING) and index + 1 in kept:
            for value in operation.inputs:
                if value not in (0, program.output) and reads.count(value) == 1:
                    kept.setdefault(value, kept[index + 1])


def _spread_forward_(program: Program, kept: dict[int, ops.Quantized]) -> None:
    """Let operations on integers whose results are integers, too, give them as such."""
    for value, operation in enumerate(program.ops, start=1):
        inputs = {kept.get(read) for read in operation.inputs}
        if len(inputs) == 1 and value not in kept and value != program.output:
            quantized = inputs.pop()
            exact = None if quantized is None else _exact(operation, quantized)
            if exact is not None:
                kept[value] = exact


def _exact(operation: ops.Operation, read: ops.Quantized) -> ops.Quantized | None:
    """The integers that hold all that an operation can make of some integers, if there are such."""
    if isinstance(operation, MOVING):
        return read
    if isinstance(operation, ops.AvgPool):
        count = operation.kernel[0] * operation.kernel[1]
        always_divides_by_it = operation.count_include_pad or not any(operation.padding)
        if always_divides_by_it and read.limits[0] == 0 and count * read.limits[1] <= ops.LIMITS["uint8"][1]:
            return ops.Quantized(type="uint8", scale=float(np.float32(read.scale / count)))
    return None
