"""The nodes and constants of an ONNX graph while a program is written into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from signwise.program.program import Program

if TYPE_CHECKING:
    import onnx

# The oldest version with the Pad and Softmax of today, so that old engines can read the file.
OPSET = 13


class Graph:
    """The nodes and tensors of an ONNX graph, collected operation by operation.

    Args:
        program: what the graph will compute.
        packed: whether binary weights stay bits.
    """

    def __init__(self, program: Program, *, packed: bool = True) -> None:
        self.program = program
        self.packed = packed
        self.opset = OPSET
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, onnx.TensorProto] = {}

    def name(self, value: int) -> str:
        """The name of a value of the program in the graph."""
        return f"value{value}" if value else "input"

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

    def need_opset(self, version: int) -> None:
        """Let the model have at least this version of the operators."""
        self.opset = max(self.opset, version)

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
