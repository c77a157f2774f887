"""A network in the two forms that engines start from: with float32 and, where possible, with 8-bit activations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.program import operations as ops
from signwise.program.program import Examples, Program


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """One network to measure.

    Args:
        float32: its program with float32 activations; other engines get the same with float32 weights.
        int8: its program with 8-bit activations, or ``None`` where it cannot have one.
        examples: inputs from which engines choose their 8-bit ranges.
    """

    float32: Program
    int8: Program | None
    examples: Examples

    def batch(self, size: int) -> Examples:
        """A batch for timing: the examples, over and over."""
        repeated = tuple(array[np.arange(size) % len(array)] for array in listed(self.examples))
        return repeated if isinstance(self.examples, tuple) else repeated[0]


def listed(examples: Examples) -> tuple[npt.NDArray[Any], ...]:
    """One array per input."""
    return examples if isinstance(examples, tuple) else (examples,)


def from_program(program: Program, count: int = 4) -> Network:
    """The network of a compiled file, with either kind of activations.

    Speed does not depend on the numbers, so the ranges of a float32 program's 8-bit form come from random pixels.

    Args:
        program: a loaded program.
        count: how many random examples to draw.
    """
    examples = random_input(program, count)
    if any(operation.out is not None for operation in program.ops):
        return Network(float32=without_quantization(program), int8=program, examples=examples)
    try:
        quantized = program.quantize(examples)
    except SignwiseError:
        quantized = None
    return Network(float32=program, int8=quantized, examples=examples)


def without_quantization(program: Program) -> Program:
    """The same program with every activation in float32."""
    return replace(program, ops=tuple(replace(operation, out=None) for operation in program.ops))


def with_float_weights(program: Program) -> Program:
    """The same program with float32 weights, scales multiplied in: what other engines run.

    Example:
        >>> layer = ops.Dense(inputs=(0,), weight="w", bits=1, out_features=1, in_features=3)
        >>> packed = Program(input_shape=(3,), ops=(layer,), tensors={"w": np.array([[5]], np.uint8)}, output=1)
        >>> packed.nbytes, with_float_weights(packed).nbytes
        (1, 12)
    """
    operations: list[ops.Operation] = []
    tensors: dict[str, npt.NDArray[Any]] = {}
    for index, operation in enumerate(program.ops):
        if isinstance(operation, ops.Conv | ops.Dense | ops.ConvTranspose):
            # A new name: layers may share a tensor of signs and differ in their scales.
            name = f"{operation.weight}.{index}"
            tensors[name] = program.float_weight(operation)
            operation = replace(operation, weight=name, bits=32, scale=None)
        operations.append(operation)
        tensors |= {used: program.tensors[used] for used in operation.tensor_names.values() if used not in tensors}
    return replace(program, ops=tuple(operations), tensors=tensors)


def random_input(program: Program, batch: int) -> Examples:
    """Random pixels from 0 to 255, the same ones every time; for several inputs small numbers, and token 0."""
    generator = np.random.default_rng(0)
    if len(program.inputs) == 1 and program.inputs[0].type == "float32":
        return generator.integers(0, 256, (batch, *program.input_shape)).astype(np.float32)
    made = tuple(
        generator.standard_normal((batch, *given.shape)).astype(np.float32)
        if given.type == "float32"
        else np.zeros((batch, *given.shape), np.int32)
        for given in program.inputs
    )
    return made if len(made) > 1 else made[0]
