"""A program as an ONNX graph of standard operators, for engines that know nothing of bits.

A convolution and its epilogue

    y = relu(scale * (sign . x) + bias + residual)    is    Relu(Add(Conv(x, scale * sign, bias), residual))

Binary weights stay packed (:mod:`signwise.export.onnx_weights`); an engine unpacks them once, when it loads the file.
An 8-bit value becomes a QuantizeLinear and a DequantizeLinear with the same rounding and limits, which engines fuse
with the layer between them. :mod:`signwise.export.onnx_operations` has the nodes of each operation.
"""

from __future__ import annotations

from signwise import __version__
from signwise.errors import SignwiseError
from signwise.export.onnx_graph import Graph
from signwise.export.onnx_operations import add_operation
from signwise.invocation import install
from signwise.program.program import Program

IR_VERSION = 8  # goes with opset 13: engines of 2021 read it


def to_onnx(program: Program, *, packed: bool = True) -> bytes:
    """The bytes of an ONNX model that computes what the program computes.

    Args:
        program: what to write. Its input is called ``input``, its output ``output``; the batch stays symbolic.
        packed: keep binary weights as bits, which makes the file about thirty times smaller; ``False`` writes them as
            float32 numbers, for tools that look for weights in the file.

    Returns:
        A serialized ``ModelProto``.

    Raises:
        SignwiseError: the ``onnx`` package is not installed, or the program has operations of file version 2.
    """
    try:
        import onnx
    except ModuleNotFoundError:
        raise SignwiseError(f"writing ONNX needs the onnx package: {install('onnx')}") from None
    if program.version > 1:
        kinds = sorted({operation.kind for operation in program.ops if operation.since > 1})
        what = ", ".join(kinds) or "several inputs or outputs, or layers on sequences"
        raise SignwiseError(
            f"ONNX export knows programs of file version 1, this one has {what}: torch.onnx.export writes the model"
        )
    graph = Graph(program, packed=packed)
    for value in range(1, len(program.ops) + 1):
        add_operation(graph, value)
    graph.node("Identity", [graph.name(program.output)], "output")
    float32 = onnx.TensorProto.FLOAT
    made = onnx.helper.make_graph(
        graph.nodes,
        "signwise",
        [onnx.helper.make_tensor_value_info("input", float32, ["batch", *program.input_shape])],
        [onnx.helper.make_tensor_value_info("output", float32, ["batch", *program.output_shape])],
        list(graph.tensors.values()),
    )
    model = onnx.helper.make_model(
        made,
        opset_imports=[onnx.helper.make_opsetid("", graph.opset)],
        ir_version=IR_VERSION,
        producer_name="signwise",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(model, dict(program.about))
    return bytes(model.SerializeToString())
