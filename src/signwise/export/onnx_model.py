"""A program as an ONNX graph of standard operators, for engines that know nothing of bits.

A convolution and its epilogue

    y = relu(scale * (sign . x) + bias + residual)    is    Relu(Add(Conv(x, scale * sign, bias), residual))

Binary weights stay packed (:mod:`signwise.export.onnx_weights`); an engine unpacks them once, when it loads the file.
An 8-bit value becomes a QuantizeLinear and a DequantizeLinear with the same rounding and limits, which engines fuse
with the layer between them. The nodes of each operation are in :mod:`signwise.export.onnx_operations` and
:mod:`signwise.export.onnx_sequences`.
"""

from __future__ import annotations

from signwise import __version__
from signwise.errors import SignwiseError
from signwise.export import onnx_operations, onnx_sequences
from signwise.export.onnx_graph import Graph
from signwise.export.onnx_operations import Nodes
from signwise.invocation import install
from signwise.program.operations import Operation
from signwise.program.program import Program

# The oldest versions with the Pad and Softmax of today, so that old engines can read the file.
OPSET = 13
IR_VERSION = 8

NODES: dict[type[Operation], Nodes] = {**onnx_operations.NODES, **onnx_sequences.NODES}


def to_onnx(program: Program, *, packed: bool = True) -> bytes:
    """The bytes of an ONNX model that computes what the program computes.

    Args:
        program: what to write. Its input is called ``input`` and its output ``output``; several are ``input0``,
            ``input1``, ... The batch stays symbolic.
        packed: keep binary weights as bits, which makes the file about thirty times smaller; ``False`` writes them as
            float32 numbers, for tools that look for weights in the file.

    Returns:
        A serialized ``ModelProto``.

    Raises:
        SignwiseError: the ``onnx`` package is not installed.
    """
    try:
        import onnx
    except ModuleNotFoundError:
        raise SignwiseError(f"writing ONNX needs the onnx package: {install('onnx')}") from None
    graph = Graph(program, packed=packed)
    first = len(program.inputs)
    for value in range(first, first + len(program.ops)):
        _add_operation(graph, value)
    kinds = {"float32": onnx.TensorProto.FLOAT, "int32": onnx.TensorProto.INT32}
    inputs, outputs = [], []
    for number, given in enumerate(program.inputs):
        shape: list[str | int | None] = ["batch", *given.shape]
        inputs.append(onnx.helper.make_tensor_value_info(graph.name(number), kinds[given.type], shape))
    for number, value in enumerate(program.outputs):
        name = "output" if len(program.outputs) == 1 else f"output{number}"
        graph.node("Identity", [graph.name(value)], name)
        shape = ["batch", *program.shapes[value]]
        outputs.append(onnx.helper.make_tensor_value_info(name, kinds[program.types[value]], shape))
    made = onnx.helper.make_graph(graph.nodes, "signwise", inputs, outputs, list(graph.tensors.values()))
    model = onnx.helper.make_model(
        made,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="signwise",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(model, dict(program.about))
    return bytes(model.SerializeToString())


def _add_operation(graph: Graph, value: int) -> None:
    """Write the operation that makes a value; its result, dequantized if it has 8 bits, gets the value's name."""
    operation, name = graph.program.ops[value - len(graph.program.inputs)], graph.name(value)
    reads = [graph.name(read) for read in operation.inputs]
    steps = NODES[type(operation)](graph, operation, reads, name)
    if getattr(operation, "relu", False):
        steps.append(("Relu", [""], {}))
    previous = ""
    for number, (kind, inputs, attributes) in enumerate(steps, start=1):
        last = number == len(steps) and operation.out is None
        made = name if last else f"{name}.{number}"
        previous = graph.node(kind, [read or previous for read in inputs], made, **attributes)
    if operation.out is not None:
        graph.quantized(previous, value)
