"""The ONNX nodes of every kind of operation: one small function each, in the table :data:`NODES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np

from signwise.export.onnx_graph import Graph
from signwise.export.onnx_weights import weight_and_bias
from signwise.program import operations as ops

Step: TypeAlias = tuple[str, list[str], dict[str, Any]]
"""A node to add: its kind, its inputs (an empty name is the result of the node before) and its attributes."""

Nodes: TypeAlias = Callable[[Graph, Any, list[str], str], list[Step]]
"""From the graph, an operation, the names of its inputs and of its result to the nodes that compute it, in order."""

NODES: dict[str, Nodes] = {}

_Function = TypeVar("_Function", bound=Nodes)


def _writes(*kinds: type[ops.Operation]) -> Callable[[_Function], _Function]:
    def register(function: _Function) -> _Function:
        NODES.update({kind.kind: function for kind in kinds})
        return function

    return register


def add_operation(graph: Graph, value: int) -> None:
    """Write the operation that makes a value; its result, dequantized if it has 8 bits, gets the value's name."""
    operation, name = graph.program.ops[value - 1], graph.name(value)
    reads = [graph.name(read) for read in operation.inputs]
    steps = NODES[operation.kind](graph, operation, reads, name)
    if getattr(operation, "relu", False):
        steps.append(("Relu", [""], {}))
    previous = ""
    for number, (kind, inputs, attributes) in enumerate(steps, start=1):
        last = number == len(steps) and operation.out is None
        made = name if last else f"{name}.{number}"
        previous = graph.node(kind, [read or previous for read in inputs], made, **attributes)
    if operation.out is not None:
        graph.quantized(previous, value)


@_writes(ops.Conv)
def _conv(graph: Graph, operation: ops.Conv, reads: list[str], name: str) -> list[Step]:
    attributes = _window(operation) | {"dilations": list(operation.dilation), "group": operation.groups}
    layer: Step = ("Conv", [reads[0], *weight_and_bias(graph, operation, name)], attributes)
    return [layer, *_residual(reads)]


@_writes(ops.Dense)
def _dense(graph: Graph, operation: ops.Dense, reads: list[str], name: str) -> list[Step]:
    layer: Step = ("Gemm", [reads[0], *weight_and_bias(graph, operation, name)], {"transB": 1})
    return [layer, *_residual(reads)]


@_writes(ops.Affine)
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


@_writes(ops.Relu)
def _relu(graph: Graph, operation: ops.Relu, reads: list[str], name: str) -> list[Step]:
    return [("Relu", reads, {})]


@_writes(ops.Add)
def _add(graph: Graph, operation: ops.Add, reads: list[str], name: str) -> list[Step]:
    return [("Add", reads, {})]


@_writes(ops.MaxPool)
def _max_pool(graph: Graph, operation: ops.MaxPool, reads: list[str], name: str) -> list[Step]:
    return [("MaxPool", reads, _window(operation))]


@_writes(ops.AvgPool)
def _avg_pool(graph: Graph, operation: ops.AvgPool, reads: list[str], name: str) -> list[Step]:
    return [("AveragePool", reads, _window(operation) | {"count_include_pad": int(operation.count_include_pad)})]


@_writes(ops.GlobalPool)
def _global_pool(graph: Graph, operation: ops.GlobalPool, reads: list[str], name: str) -> list[Step]:
    return [("GlobalAveragePool", reads, {}), ("Flatten", [""], {})]


@_writes(ops.PadChannels)
def _pad_channels(graph: Graph, operation: ops.PadChannels, reads: list[str], name: str) -> list[Step]:
    trailing = [0] * (len(graph.program.shapes[operation.inputs[0]]) - 1)
    pads = np.array([0, operation.before, *trailing, 0, operation.after, *trailing], np.int64)
    return [("Pad", [*reads, graph.tensor(f"{name}.pads", pads)], {})]


@_writes(ops.Flatten)
def _flatten(graph: Graph, operation: ops.Flatten, reads: list[str], name: str) -> list[Step]:
    return [("Flatten", reads, {})]


@_writes(ops.Concat)
def _concat(graph: Graph, operation: ops.Concat, reads: list[str], name: str) -> list[Step]:
    return [("Concat", reads, {"axis": 1})]


@_writes(ops.Softmax)
def _softmax(graph: Graph, operation: ops.Softmax, reads: list[str], name: str) -> list[Step]:
    return [("Softmax", reads, {"axis": 1})]


def _residual(reads: list[str]) -> list[Step]:
    return [("Add", ["", reads[1]], {})] if len(reads) == 2 else []


def _window(operation: ops.Conv | ops.Pool) -> dict[str, Any]:
    return {
        "kernel_shape": list(operation.kernel),
        "strides": list(operation.stride),
        "pads": list(operation.padding),
    }
