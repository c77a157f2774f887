"""The ONNX nodes of layers, pools and other operations on images and vectors: one small function each, in a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from signwise.export.onnx_graph import Graph
from signwise.export.onnx_weights import weight_and_bias
from signwise.program import operations as ops

Step: TypeAlias = tuple[str, list[str], dict[str, Any]]
"""A node to add: its kind, its inputs (an empty name is the result of the node before) and its attributes."""

Nodes: TypeAlias = Callable[[Graph, Any, list[str], str], list[Step]]
"""From the graph, an operation, the names of its inputs and of its result to the nodes that compute it, in order."""


def _conv(graph: Graph, operation: ops.Conv, reads: list[str], name: str) -> list[Step]:
    attributes = _window(operation) | {"dilations": list(operation.dilation), "group": operation.groups}
    layer: Step = ("Conv", [reads[0], *weight_and_bias(graph, operation, name)], attributes)
    return [layer, *_residual(reads)]


def _dense(graph: Graph, operation: ops.Dense, reads: list[str], name: str) -> list[Step]:
    names = weight_and_bias(graph, operation, name)
    if len(graph.program.shapes[operation.inputs[0]]) == 1:
        return [("Gemm", [reads[0], *names], {"transB": 1}), *_residual(reads)]
    turned = graph.node("Transpose", names[:1], f"{name}.columns", perm=[1, 0])
    bias: list[Step] = [("Add", ["", names[1]], {})] if len(names) == 2 else []
    return [("MatMul", [reads[0], turned], {}), *bias, *_residual(reads)]


def _conv_transpose(graph: Graph, operation: ops.ConvTranspose, reads: list[str], name: str) -> list[Step]:
    names = weight_and_bias(graph, operation, name)
    # (groups · filters, in, kh, kw) -> (groups · in, filters, kh, kw), as ONNX and PyTorch keep them
    shape = operation.weight_shape(graph.program.shapes[operation.inputs[0]])
    filters, groups = shape[0] // operation.groups, operation.groups
    weight = graph.node("Reshape", [names[0], graph.sizes(groups, filters, *shape[1:])], f"{name}.split")
    weight = graph.node("Transpose", [weight], f"{name}.turned", perm=[0, 2, 1, 3, 4])
    weight = graph.node("Reshape", [weight, graph.sizes(groups * shape[1], filters, *shape[2:])], f"{name}.joined")
    attributes = _window(operation) | {
        "dilations": list(operation.dilation),
        "group": groups,
        "output_padding": list(operation.output_padding),
    }
    return [("ConvTranspose", [reads[0], weight, *names[1:]], attributes), *_residual(reads)]


def _affine(graph: Graph, operation: ops.Affine, reads: list[str], name: str) -> list[Step]:
    # A batch norm with mean 0 and variance 1: one node, which engines fuse better than Mul and Add.
    tensors = graph.program.tensors
    channels = len(tensors[operation.scale])
    numbers = {
        operation.scale: tensors[operation.scale],
        operation.bias: tensors[operation.bias],
        f"zeros.float.{channels}": np.zeros(channels, np.float32),
        f"ones.float.{channels}": np.ones(channels, np.float32),
    }
    return [
        (
            "BatchNormalization",
            [reads[0], *(graph.tensor(key, array) for key, array in numbers.items())],
            {"epsilon": 0.0},
        )
    ]


def _relu(graph: Graph, operation: ops.Relu, reads: list[str], name: str) -> list[Step]:
    return [("Relu", reads, {})]


def _add(graph: Graph, operation: ops.Add, reads: list[str], name: str) -> list[Step]:
    return [("Add", reads, {})]


def _max_pool(graph: Graph, operation: ops.MaxPool, reads: list[str], name: str) -> list[Step]:
    return [("MaxPool", reads, _window(operation))]


def _avg_pool(graph: Graph, operation: ops.AvgPool, reads: list[str], name: str) -> list[Step]:
    return [("AveragePool", reads, _window(operation) | {"count_include_pad": int(operation.count_include_pad)})]


def _global_pool(graph: Graph, operation: ops.GlobalPool, reads: list[str], name: str) -> list[Step]:
    return [("GlobalAveragePool", reads, {}), ("Flatten", [""], {})]


def _pad_channels(graph: Graph, operation: ops.PadChannels, reads: list[str], name: str) -> list[Step]:
    trailing = [0] * (len(graph.program.shapes[operation.inputs[0]]) - 1)
    pads = np.array([0, operation.before, *trailing, 0, operation.after, *trailing], np.int64)
    return [("Pad", [*reads, graph.tensor(f"{name}.pads", pads)], {})]


def _flatten(graph: Graph, operation: ops.Flatten, reads: list[str], name: str) -> list[Step]:
    return [("Flatten", reads, {})]


def _concat(graph: Graph, operation: ops.Concat, reads: list[str], name: str) -> list[Step]:
    return [("Concat", reads, {"axis": operation.axis + 1})]


def _softmax(graph: Graph, operation: ops.Softmax, reads: list[str], name: str) -> list[Step]:
    return [("LogSoftmax" if operation.log else "Softmax", reads, {"axis": operation.axis + 1})]


def _residual(reads: list[str]) -> list[Step]:
    return [("Add", ["", reads[1]], {})] if len(reads) == 2 else []


def _window(operation: ops.Conv | ops.ConvTranspose | ops.Pool) -> dict[str, Any]:
    return {
        "kernel_shape": list(operation.kernel),
        "strides": list(operation.stride),
        "pads": list(operation.padding),
    }


NODES: dict[type[ops.Operation], Nodes] = {
    ops.Conv: _conv,
    ops.Dense: _dense,
    ops.Affine: _affine,
    ops.Relu: _relu,
    ops.Add: _add,
    ops.MaxPool: _max_pool,
    ops.AvgPool: _avg_pool,
    ops.GlobalPool: _global_pool,
    ops.PadChannels: _pad_channels,
    ops.Flatten: _flatten,
    ops.Concat: _concat,
    ops.Softmax: _softmax,
    ops.ConvTranspose: _conv_transpose,
}
