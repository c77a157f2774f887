"""A program as an ONNX graph, for engines that know nothing of bits.

Binary weights become float32 numbers, sign times scale, so a convolution and its epilogue

    y = relu(scale * (sign . x) + bias + residual)    is    Relu(Add(Conv(x, scale * sign, bias), residual))

An 8-bit value becomes a QuantizeLinear and a DequantizeLinear with the same rounding and limits. The ONNX model
computes what the program computes, at thirty times its size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from signwise import __version__
from signwise.errors import SignwiseError
from signwise.program import operations as ops
from signwise.program.program import Program

if TYPE_CHECKING:
    import onnx

# The oldest versions with the Pad and Softmax of today, so that old engines can read the file.
OPSET = 13
IR_VERSION = 8

Step: TypeAlias = tuple[str, list[str], dict[str, Any]]
"""A node to add: its kind, its inputs (an empty name is the result of the node before) and its attributes."""


def to_onnx(program: Program) -> bytes:
    """The bytes of an ONNX model that computes what the program computes.

    Args:
        program: what to write. Its input is called ``input``, its output ``output``; the batch stays symbolic.

    Returns:
        A serialized ``ModelProto``.

    Raises:
        SignwiseError: the ``onnx`` package is not installed.
    """
    try:
        import onnx
    except ModuleNotFoundError:
        raise SignwiseError("writing ONNX needs the onnx package: pip install 'signwise[onnx]'") from None
    graph = _Graph(program)
    for value, operation in enumerate(program.ops, start=1):
        graph.add(operation, value)
    graph.node("Identity", [graph.name(program.output)], "output")
    float32 = onnx.TensorProto.FLOAT
    made = onnx.helper.make_graph(
        graph.nodes,
        "signwise",
        [onnx.helper.make_tensor_value_info("input", float32, ["batch", *program.input_shape])],
        [onnx.helper.make_tensor_value_info("output", float32, ["batch", *program.output_shape])],
        graph.tensors,
    )
    model = onnx.helper.make_model(
        made,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="signwise",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(model, dict(program.about))
    return bytes(model.SerializeToString())


class _Graph:
    """The nodes and tensors of an ONNX graph, collected operation by operation."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []

    def name(self, value: int) -> str:
        """The name of a value of the program in the graph."""
        return f"value{value}" if value else "input"

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"{output}_{kind}", **attributes))
        return output

    def tensor(self, name: str, array: npt.NDArray[Any]) -> str:
        from onnx import numpy_helper

        # Dots in names, since ONNX Runtime's quantizer appends its own names with underscores, even where they exist.
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, operation: ops.Operation, value: int) -> None:
        """Write one operation; its result, dequantized if it has 8 bits, gets the name of the value."""
        name = self.name(value)
        steps, previous = self._steps(operation, name), self.name(operation.inputs[0])
        for step, (kind, inputs, attributes) in enumerate(steps, start=1):
            last = step == len(steps) and operation.out is None
            # An empty name is the result of the step before.
            made = name if last else f"{name}.{step}"
            self.node(kind, [read or previous for read in inputs], made, **attributes)
            previous = made
        if operation.out is not None:
            scale = self.tensor(f"{name}.step", np.float32(operation.out.scale))
            zero = self.tensor(f"{name}.zero", np.zeros((), "int8" if operation.out.type == "int8" else "uint8"))
            if operation.out.type == "uint6":
                # ONNX has no six-bit type: clip before the conversion to bytes.
                limits = [
                    self.tensor(f"{name}.{end}", np.float32(limit * np.float32(operation.out.scale)))
                    for end, limit in zip(("least", "most"), operation.out.limits, strict=True)
                ]
                previous = self.node("Clip", [previous, *limits], f"{name}.clipped")
            integers = self.node("QuantizeLinear", [previous, scale, zero], f"{name}.integers")
            self.node("DequantizeLinear", [integers, scale, zero], name)

    def _steps(self, operation: ops.Operation, name: str) -> list[Step]:
        """The nodes of one operation, in order."""
        reads = [self.name(value) for value in operation.inputs]
        relu: list[Step] = [("Relu", [""], {})] if _ends_in_relu(operation) else []
        match operation:
            case ops.Conv() | ops.Dense():
                residual: list[Step] = [("Add", ["", reads[1]], {})] if len(reads) == 2 else []
                return [self._layer(operation, reads[0], name), *residual, *relu]
            case ops.Affine():
                # A batch norm with mean 0 and variance 1: one node, which engines fuse better than Mul and Add.
                channels = len(self.program.tensors[operation.scale])
                numbers = {
                    "scale": self.program.tensors[operation.scale],
                    "bias": self.program.tensors[operation.bias],
                    "mean": np.zeros(channels, np.float32),
                    "variance": np.ones(channels, np.float32),
                }
                tensors = [self.tensor(f"{name}.{part}", array) for part, array in numbers.items()]
                return [("BatchNormalization", [reads[0], *tensors], {"epsilon": 0.0}), *relu]
            case ops.Relu():
                return relu
            case ops.Add():
                return [("Add", reads, {}), *relu]
            case ops.MaxPool():
                return [("MaxPool", reads, _window(operation))]
            case ops.AvgPool():
                include = {"count_include_pad": int(operation.count_include_pad)}
                return [("AveragePool", reads, _window(operation) | include)]
            case ops.GlobalPool():
                return [("GlobalAveragePool", reads, {}), ("Flatten", [""], {})]
            case ops.PadChannels():
                trailing = [0] * (len(self.program.shapes[operation.inputs[0]]) - 1)
                pads = np.array([0, operation.before, *trailing, 0, operation.after, *trailing], np.int64)
                return [("Pad", [*reads, self.tensor(f"{name}.pads", pads)], {})]
            case ops.Flatten():
                return [("Flatten", reads, {})]
            case ops.Concat():
                return [("Concat", reads, {"axis": 1})]
            case ops.Softmax():
                return [("Softmax", reads, {"axis": 1})]
        raise TypeError(f"unknown operation {type(operation).__name__}")

    def _layer(self, operation: ops.Conv | ops.Dense, read: str, name: str) -> Step:
        inputs = [read, self.tensor(f"{name}.weight", self.program.float_weight(operation))]
        if operation.bias is not None:
            inputs.append(self.tensor(f"{name}.bias", self.program.tensors[operation.bias]))
        if isinstance(operation, ops.Dense):
            return "Gemm", inputs, {"transB": 1}
        attributes = _window(operation) | {"dilations": list(operation.dilation), "group": operation.groups}
        return "Conv", inputs, attributes


def _ends_in_relu(operation: ops.Operation) -> bool:
    return isinstance(operation, ops.Relu) or bool(getattr(operation, "relu", False))


def _window(operation: ops.Conv | ops.Pool) -> dict[str, Any]:
    return {
        "kernel_shape": list(operation.kernel),
        "strides": list(operation.stride),
        "pads": list(operation.padding),
    }
