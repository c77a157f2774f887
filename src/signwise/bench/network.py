"""A network in the two forms that engines start from: float32 activations and, where it has one, 8-bit activations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.export.onnx_model import float_weight
from signwise.runtime import ops
from signwise.runtime.program import Program


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """One network to be measured.

    Args:
        float32: its program with float32 activations; other engines get it with float32 weights.
        int8: its program with 8-bit activations, or ``None`` where it cannot have one.
        examples: inputs to choose 8-bit ranges on.
    """

    float32: Program
    int8: Program | None
    examples: npt.NDArray[np.float32]

    @property
    def float_bytes(self) -> int:
        """The bytes of the same network with float32 weights."""
        layers = [operation for operation in self.float32.ops if isinstance(operation, ops.Conv | ops.Dense)]
        packed = {layer.weight: float_weight(self.float32, layer).nbytes for layer in layers}
        return sum(packed.get(name, tensor.nbytes) for name, tensor in self.float32.tensors.items())


def from_program(program: Program, count: int = 16) -> Network:
    """The network of a compiled file, whichever activations it has.

    Speed does not depend on the numbers, so the 8-bit form of a float32 program is made with ranges of random pixels.

    Args:
        program: as loaded.
        count: how many random examples to draw.
    """
    examples = random_input(program, count)
    if any(operation.out is not None for operation in program.ops):
        return Network(float32=without_quantization(program), int8=program, examples=examples)
    from signwise.compiler.quantize import quantize

    try:
        quantized = quantize(program, examples)
    except SignwiseError:
        return Network(float32=program, int8=None, examples=examples)
    return Network(float32=program, int8=quantized, examples=examples)


def without_quantization(program: Program) -> Program:
    """The same program with every value in float32."""
    return replace(program, ops=tuple(replace(operation, out=None) for operation in program.ops))


def random_input(program: Program, batch: int) -> npt.NDArray[np.float32]:
    """Random pixels, 0 to 255: the same ones every time."""
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (batch, *program.input_shape)).astype(np.float32)
