"""The nodes and constants of an ONNX graph while a program is written into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from signwise.program.program import Program

if TYPE_CHECKING:
    import onnx


class Graph:
    """The nodes and tensors of an ONNX graph, collected operation by operation.

    Args:
        program: what the graph will compute.
        packed: whether binary weights stay bits.
    """

    def __init__(self, program: Program, *, packed: bool = True) -> None:
        self.program = program
        self.packed = packed
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, onnx.TensorProto] = {}

    def name(self, value: int) -> str:
        """The name of a value of the program in the graph."""
        count = len(self.program.inputs)
        if value >= count:
            return f"value{value}"
        return "input" if count == 1 else f"input{value}"

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node and return the name of its result."""
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"{output}_{kind}", **attributes))
        return output

    def tensor(self, name: str, array: npt.NDArray[Any]) -> str:
        """Add a constant, once per name, and return the name."""
        from onnx import numpy_helper

        # Dots in names, since ONNX Runtime's quantizer appends its own names with underscores, even where they exist.
        if name not in self.tensors:
            self.tensors[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def sizes(self, *numbers: int) -> str:
        """A constant list of whole numbers, once per list."""
        return self.tensor(f"sizes.{'.'.join(map(str, numbers))}", np.array(numbers, np.int64))

    def number(self, value: float) -> str:
        """A constant float32, once per value."""
        return self.tensor(f"number.{value!r}", np.float32(value))

    def aligned(self, read: str, rank: int, to: int, name: str) -> str:
        """A value with dimensions of one after the batch, so that examples of different ranks broadcast."""
        return read if rank == to else self.node("Unsqueeze", [read, self.sizes(*range(1, 1 + to - rank))], name)

    def quantized(self, previous: str, value: int) -> None:
        """Round ``previous`` to the 8-bit type of a value; the numbers that the integers stand for get its name."""
        out, name = self.program.quantization(value), self.name(value)
        assert out is not None
        kind = "int8" if out.type == "int8" else "uint8"
        scale = self.tensor(f"{name}.step", np.float32(out.scale))
        zero = self.tensor(f"zero.{kind}", np.zeros((), kind))
        integers = self.node("QuantizeLinear", [previous, scale, zero], f"{name}.integers")
        if out.type == "uint6":
            # ONNX has no six-bit type. Clipped after the rounding, since engines fuse a layer with the node after it.
            limits = [self.tensor(f"limit.{limit}", np.uint8(limit)) for limit in out.limits]
            integers = self.node("Clip", [integers, *limits], f"{name}.clipped")
        self.node("DequantizeLinear", [integers, scale, zero], name)
