"""One-bit weights in an ONNX graph of standard operators.

ONNX has no type of one bit. The bits of the ``.sw`` file go in as they are, bytes in rows, and index a table of 256
rows that holds the eight signs of every byte:

    weight = scale * Reshape(Gather(signs, bytes))

All of these nodes read constants, so an engine computes them once, when it loads the model, and then runs what it would
run for float weights. The table has 2 KB and serves all layers.

Where a layer reads 8-bit values and gives 8-bit values, a DequantizeLinear takes the place of the product, and the bias
becomes int32 in steps of both scales: the form that ONNX Runtime fuses to a convolution of integers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from signwise.export.onnx_graph import Graph
from signwise.program.operations import Dense, Weighted, unpack_signs

FLOAT = 1  # numbers of the types in onnx.TensorProto
INT32 = 6


def weight_and_bias(graph: Graph, operation: Weighted, name: str) -> list[str]:
    """The names of the layer's weight, in PyTorch's layout, and of its bias if it has one.

    Args:
        graph: gains the nodes and tensors.
        operation: a layer of the graph's program.
        name: of its result in the graph; begins the names of all that is added.
    """
    tensors = graph.program.tensors
    if operation.bits != 1 or not graph.packed:
        weight = graph.tensor(f"{name}.weight", graph.program.float_weight(operation))
    else:
        scales = _integer_scales(graph, operation)
        if scales is not None:
            return _integers(graph, operation, name, *scales)
        # The table becomes float before the look-up: OpenVINO takes a product of int8 weights and a scale for a
        # quantized layer, and would round its inputs to 8 bits.
        weight = _signs(graph, operation, name, operation.weight, tensors[operation.weight], _table(graph, FLOAT))
        if isinstance(operation, Dense) and operation.block_scale is not None:
            weight = _scaled_blocks(graph, operation, name, weight)
        if operation.scale is not None:
            shape = operation.weight_shape(_read_shape(graph, operation))
            column = tensors[operation.scale].reshape(-1, *[1] * (len(shape) - 1))  # (out,) -> (out, 1, ...)
            weight = graph.node("Mul", [weight, graph.tensor(operation.scale, column)], f"{name}.weight")
    if operation.bias is None:
        return [weight]
    return [weight, graph.tensor(operation.bias, tensors[operation.bias])]


def _scaled_blocks(graph: Graph, operation: Dense, name: str, signs: str) -> str:
    assert operation.block_scale is not None
    outputs, blocks, inputs = operation.out_features, operation.blocks, operation.in_features
    split = graph.node("Reshape", [signs, graph.sizes(outputs, blocks, inputs // blocks)], f"{name}.blocks")
    scales = graph.tensor(operation.block_scale, graph.program.tensors[operation.block_scale][..., None])
    scaled = graph.node("Mul", [split, scales], f"{name}.blocks.scaled")
    return graph.node("Reshape", [scaled, graph.sizes(outputs, inputs)], f"{name}.joined")


def _integers(
    graph: Graph,
    operation: Weighted,
    name: str,
    scales: npt.NDArray[np.float32],
    bias: npt.NDArray[np.int32] | None,
    bias_scales: npt.NDArray[np.float32],
) -> list[str]:
    """Weight and bias as integers and a DequantizeLinear each."""
    bits = graph.program.tensors[operation.weight]
    if operation.scale is not None:
        # Scales of integers are positive: a negative one turns the signs of its filter instead.
        negative = graph.program.tensors[operation.scale] < 0
        bits = np.where(negative[:, None], ~bits, bits)
    signs = _signs(graph, operation, name, f"{name}.bits", bits, _table(graph))
    zeros = graph.tensor(f"zeros.{len(scales)}", np.zeros(len(scales), np.int8))
    step = graph.tensor(f"{name}.weight.step", scales)
    made = [graph.node("DequantizeLinear", [signs, step, zeros], f"{name}.weight", axis=0)]
    if bias is not None:
        whole = graph.tensor(f"{name}.bias.integers", bias)
        step = graph.tensor(f"{name}.bias.step", bias_scales)
        zeros = graph.tensor(f"zeros.wide.{len(scales)}", np.zeros(len(scales), np.int32))
        made.append(graph.node("DequantizeLinear", [whole, step, zeros], f"{name}.bias", axis=0))
    return made


def _table(graph: Graph, kind: int | None = None) -> str:
    """The signs of every byte, (256, 8): int8 in the file, cast to a ``kind`` once for all layers."""
    every_byte = np.arange(256, dtype=np.uint8)[:, None]
    table = graph.tensor("signs", unpack_signs(every_byte, (256, 8)))
    if kind is None:
        return table
    cast = f"{table}.{kind}"
    if not any(cast in node.output for node in graph.nodes):
        graph.node("Cast", [table], cast, to=kind)
    return cast


def _signs(graph: Graph, operation: Weighted, name: str, stored: str, bits: npt.NDArray[np.uint8], table: str) -> str:
    """The signs of a layer in PyTorch's layout, of the type of the table."""
    shape = operation.weight_shape(_read_shape(graph, operation))
    rows, terms = shape[0], operation.terms(_read_shape(graph, operation))
    index = graph.node("Cast", [graph.tensor(stored, bits)], f"{name}.index", to=INT32)  # Gather takes no uint8
    signs = graph.node("Gather", [table, index], f"{name}.gathered", axis=0)  # (out, bytes, 8)
    if terms % 8:
        signs = graph.node("Reshape", [signs, graph.sizes(rows, -1)], f"{name}.padded")
        ends = [graph.sizes(at) for at in (0, terms, 1)]
        signs = graph.node("Slice", [signs, *ends], f"{name}.rows")
    return graph.node("Reshape", [signs, graph.sizes(*shape)], f"{name}.signs")


def _integer_scales(
    graph: Graph, operation: Weighted
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32] | None, npt.NDArray[np.float32]] | None:
    """Scale per filter, bias as integers and the scales of the bias, or ``None`` where the layer must stay float."""
    read = graph.program.quantization(operation.inputs[0])
    has_blocks = isinstance(operation, Dense) and operation.blocks > 1
    if read is None or operation.out is None or len(operation.inputs) == 2 or has_blocks:
        return None
    tensors = graph.program.tensors
    rows = operation.weight_shape(_read_shape(graph, operation))[0]
    scales = np.ones(rows, np.float32) if operation.scale is None else np.abs(tensors[operation.scale])
    bias_scales = scales * np.float32(read.scale)
    if bias_scales.min() < np.finfo(np.float32).tiny:
        return None  # a filter of zeros has no integers
    if operation.bias is None:
        return scales, None, bias_scales
    bias = np.rint(tensors[operation.bias].astype(np.float64) / bias_scales)
    if np.abs(bias).max() > np.iinfo(np.int32).max // 2:
        return None  # leaves half of the range to the sum of the products
    return scales, bias.astype(np.int32), bias_scales


def _read_shape(graph: Graph, operation: Weighted) -> tuple[int, ...]:
    return graph.program.shapes[operation.inputs[0]]
