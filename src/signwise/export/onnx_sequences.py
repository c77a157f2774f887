"""The ONNX nodes of what modern networks need: functions, arithmetic, attention, norms, moves. All of opset 13."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from signwise.export.onnx_graph import Graph
from signwise.export.onnx_operations import Nodes, Step
from signwise.program import operations as ops

INT32 = 6  # in onnx.TensorProto

_NODES_OF_FUNCTIONS = {
    "abs": "Abs",
    "cos": "Cos",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "negate": "Neg",
    "reciprocal": "Reciprocal",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "sqrt": "Sqrt",
    "tanh": "Tanh",
}
_NODES_OF_ARITHMETIC = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "maximum": "Max",
    "minimum": "Min",
    "power": "Pow",
}


def _rank(graph: Graph, value: int) -> int:
    return len(graph.program.shapes[value])


def _activation(graph: Graph, operation: ops.Activation, reads: list[str], name: str) -> list[Step]:
    x, number, numbers = reads[0], graph.number, operation.numbers
    if operation.function in _NODES_OF_FUNCTIONS:
        return [(_NODES_OF_FUNCTIONS[operation.function], [x], {})]
    match operation.function:
        case "clip":
            return [("Clip", [x, *map(number, numbers)], {})]
        case "leaky_relu":
            return [("LeakyRelu", [x], {"alpha": numbers[0]})]
        case "elu":
            alpha, scale, input_scale = numbers
            below = graph.node("Min", [x, number(0.0)], f"{name}.below")
            scaled = graph.node("Mul", [below, number(input_scale)], f"{name}.scaled")
            bent = graph.node("Elu", [scaled], f"{name}.bent", alpha=alpha)
            above = graph.node("Relu", [x], f"{name}.above")
            return [("Add", [above, bent], {}), ("Mul", ["", number(scale)], {})]
        case "silu":
            return [("Sigmoid", [x], {}), ("Mul", ["", x], {})]
        case "gelu":
            bell = graph.node("Mul", [x, number(math.sqrt(0.5))], f"{name}.bell")
            share = graph.node("Erf", [bell], f"{name}.share")
            return [("Add", [share, number(1.0)], {}), ("Mul", ["", x], {}), ("Mul", ["", number(0.5)], {})]
        case "gelu_tanh":
            square = graph.node("Mul", [x, x], f"{name}.square")
            cube = graph.node("Mul", [square, x], f"{name}.cube")
            small = graph.node("Mul", [cube, number(0.044715)], f"{name}.small")
            inner = graph.node("Add", [x, small], f"{name}.inner")
            wide = graph.node("Mul", [inner, number(math.sqrt(2 / math.pi))], f"{name}.wide")
            share = graph.node("Tanh", [wide], f"{name}.share")
            return [("Add", [share, number(1.0)], {}), ("Mul", ["", x], {}), ("Mul", ["", number(0.5)], {})]
        case "hardsigmoid":
            return [("HardSigmoid", [x], {"alpha": 1 / 6, "beta": 0.5})]
        case "hardswish":
            return [("HardSigmoid", [x], {"alpha": 1 / 6, "beta": 0.5}), ("Mul", ["", x], {})]
        case "softplus":
            beta, threshold = numbers
            scaled = graph.node("Mul", [x, number(beta)], f"{name}.scaled")
            curve = graph.node("Softplus", [scaled], f"{name}.curve")
            smooth = graph.node("Div", [curve, number(beta)], f"{name}.smooth")
            far = graph.node("Greater", [scaled, number(threshold)], f"{name}.far")
            return [("Where", [far, x, smooth], {})]
        case "mish":
            return [("Softplus", [x], {}), ("Tanh", [""], {}), ("Mul", ["", x], {})]
        case "square":
            return [("Mul", [x, x], {})]
        case "rsqrt":
            return [("Sqrt", [x], {}), ("Reciprocal", [""], {})]
    raise TypeError(f"unknown function {operation.function}")


def _column(graph: Graph, stored: str, rank: int) -> str:
    """One number per channel as a constant that broadcasts over a batch: ``(channels, 1, ...)``."""
    numbers = graph.program.tensors[stored]
    return graph.tensor(f"{stored}.{rank}", numbers.reshape(-1, *[1] * (rank - 1)))


def _prelu(graph: Graph, operation: ops.PRelu, reads: list[str], name: str) -> list[Step]:
    return [("PRelu", [reads[0], _column(graph, operation.slope, _rank(graph, operation.inputs[0]))], {})]


def _sign(graph: Graph, operation: ops.Sign, reads: list[str], name: str) -> list[Step]:
    rank = _rank(graph, operation.inputs[0])
    threshold = graph.number(0.0) if operation.threshold is None else _column(graph, operation.threshold, rank)
    return [("Greater", [reads[0], threshold], {}), ("Where", ["", graph.number(1.0), graph.number(-1.0)], {})]


def _arithmetic(graph: Graph, operation: ops.Arithmetic, reads: list[str], name: str) -> list[Step]:
    ranks = [_rank(graph, value) for value in operation.inputs]
    if operation.operand is not None:
        tensor = graph.program.tensors[operation.operand]
        ranks.append(tensor.ndim)
    pair = [
        graph.aligned(read, rank, max(ranks), f"{name}.aligned{number}")
        for number, (read, rank) in enumerate(zip(reads, ranks, strict=False))
    ]
    if operation.operand is not None:
        pair.append(graph.tensor(operation.operand, tensor))
    return [(_NODES_OF_ARITHMETIC[operation.function], pair[::-1] if operation.swapped else pair, {})]


def _constant(graph: Graph, operation: ops.Constant, reads: list[str], name: str) -> list[Step]:
    tensor = graph.tensor(operation.tensor, graph.program.tensors[operation.tensor])
    shape = graph.node("Shape", [graph.name(0)], f"{name}.shape")
    batch = graph.node("Slice", [shape, graph.sizes(0), graph.sizes(1)], f"{name}.batch")
    if operation.shape:
        batch = graph.node("Concat", [batch, graph.sizes(*operation.shape)], f"{name}.sizes", axis=0)
    return [("Expand", [tensor, batch], {})]


def _swapped(graph: Graph, read: str, rank: int, name: str) -> str:
    """A value with its last two dimensions swapped."""
    return graph.node("Transpose", [read], name, perm=[*range(rank - 1), rank, rank - 1])


def _matmul(graph: Graph, operation: ops.Matmul, reads: list[str], name: str) -> list[Step]:
    ranks = [_rank(graph, value) for value in operation.inputs]
    pair = []
    turned = (operation.transpose_first, operation.transpose_second)
    for number, (read, rank, turn) in enumerate(zip(reads, ranks, turned, strict=True)):
        made = graph.aligned(read, rank, max(ranks), f"{name}.aligned{number}")
        pair.append(_swapped(graph, made, max(ranks), f"{name}.turned{number}") if turn else made)
    scale: list[Step] = [("Mul", ["", graph.number(operation.scale)], {})] if operation.scale != 1 else []
    return [("MatMul", pair, {}), *scale]


def _normalize(graph: Graph, operation: ops.Normalize, reads: list[str], name: str) -> list[Step]:
    shape, x = graph.program.shapes[operation.inputs[0]], reads[0]
    axes = [axis + 1 for axis in operation.axes]
    if operation.groups > 1:
        x, axes = graph.node("Reshape", [x, graph.sizes(0, operation.groups, -1)], f"{name}.groups"), [2]
    if operation.centered:
        mean = graph.node("ReduceMean", [x], f"{name}.mean", axes=axes, keepdims=1)
        x = graph.node("Sub", [x, mean], f"{name}.centered")
    square = graph.node("Mul", [x, x], f"{name}.square")
    variance = graph.node("ReduceMean", [square], f"{name}.variance", axes=axes, keepdims=1)
    safe = graph.node("Add", [variance, graph.number(operation.epsilon)], f"{name}.safe")
    deviation = graph.node("Sqrt", [safe], f"{name}.deviation")
    steps: list[Step] = [("Div", [x, deviation], {})]
    if operation.groups > 1:
        steps.append(("Reshape", ["", graph.sizes(0, *shape)], {}))
    for kind, stored in (("Mul", operation.scale), ("Add", operation.bias)):
        if stored is not None and operation.per_channel:
            steps.append((kind, ["", _column(graph, stored, len(shape))], {}))
        elif stored is not None:
            kept = [size if axis in operation.axes else 1 for axis, size in enumerate(shape)]
            numbers = graph.program.tensors[stored].reshape(kept)
            steps.append((kind, ["", graph.tensor(f"{stored}.{kept}", numbers)], {}))
    return steps


def _attention(graph: Graph, operation: ops.Attention, reads: list[str], name: str) -> list[Step]:
    shapes = [graph.program.shapes[value] for value in operation.inputs]
    query, key, value = reads[:3]
    rank = len(shapes[0])
    if rank > 2 and shapes[0][-3] != shapes[1][-3]:
        # Query heads share the heads of keys and values in order.
        share = shapes[0][-3] // shapes[1][-3]
        index = graph.sizes(*np.repeat(np.arange(shapes[1][-3]), share).tolist())
        key = graph.node("Gather", [key, index], f"{name}.keys", axis=rank - 2)
        value = graph.node("Gather", [value, index], f"{name}.values", axis=rank - 2)
    turned = _swapped(graph, key, rank, f"{name}.turned")
    products = graph.node("MatMul", [query, turned], f"{name}.products")
    scores = graph.node("Mul", [products, graph.number(operation.scale)], f"{name}.scores")
    if operation.mask is not None:
        mask = graph.tensor(operation.mask, graph.program.tensors[operation.mask])
        scores = graph.node("Add", [scores, mask], f"{name}.masked")
    if len(reads) == 4:
        mask = graph.aligned(reads[3], len(shapes[3]), rank, f"{name}.mask")
        scores = graph.node("Add", [scores, mask], f"{name}.masked")
    if operation.causal:
        size = (shapes[0][-2], shapes[1][-2])
        seen = graph.tensor(f"seen.{size}", np.tri(*size, dtype=np.bool_))
        scores = graph.node("Where", [seen, scores, graph.number(-math.inf)], f"{name}.causal")
    return [("Softmax", [scores], {"axis": rank}), ("MatMul", ["", value], {})]


def _embedding(graph: Graph, operation: ops.Embedding, reads: list[str], name: str) -> list[Step]:
    table = graph.tensor(operation.weight, graph.program.tensors[operation.weight])
    return [("Gather", [table, reads[0]], {"axis": 0})]


def _transpose(graph: Graph, operation: ops.Transpose, reads: list[str], name: str) -> list[Step]:
    return [("Transpose", reads, {"perm": [0, *(axis + 1 for axis in operation.axes)]})]


def _reshape(graph: Graph, operation: ops.Reshape, reads: list[str], name: str) -> list[Step]:
    return [("Reshape", [*reads, graph.sizes(0, *operation.shape)], {})]  # 0 keeps the batch


def _slice(graph: Graph, operation: ops.Slice, reads: list[str], name: str) -> list[Step]:
    axes = range(1, len(operation.starts) + 1)
    lists = (operation.starts, operation.stops, axes, operation.steps)
    return [("Slice", [*reads, *(graph.sizes(*numbers) for numbers in lists)], {})]


def _pad(graph: Graph, operation: ops.Pad, reads: list[str], name: str) -> list[Step]:
    if operation.mode != "circular":
        pads = graph.sizes(0, *operation.before, 0, *operation.after)
        mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}[operation.mode]
        fill = [graph.number(operation.value)] if mode == "constant" else []
        return [("Pad", [*reads, pads, *fill], {"mode": mode})]
    steps: list[Step] = [("Identity", reads, {})]
    shape = graph.program.shapes[operation.inputs[0]]
    for axis, (size, before, after) in enumerate(zip(shape, operation.before, operation.after, strict=True), start=1):
        if before or after:  # opset 13 has no circle
            index = (np.arange(-before, size + after) % size).tolist()
            steps.append(("Gather", ["", graph.sizes(*index)], {"axis": axis}))
    return steps


def _resize(graph: Graph, operation: ops.Resize, reads: list[str], name: str) -> list[Step]:
    # Look-ups and weights instead of Resize, whose rounding differs between engines.
    made, shape = reads[0], graph.program.shapes[operation.inputs[0]]
    for axis, size, ratio in zip((2, 3), operation.size, operation.ratios, strict=True):
        last, place = shape[axis - 1] - 1, operation.places(size, np.float32(ratio))
        below = np.minimum(place.astype(np.int64), last)
        lower = graph.node("Gather", [made, graph.sizes(*below.tolist())], f"{name}.lower{axis}", axis=axis)
        if operation.mode == "nearest":
            made = lower
            continue
        above = graph.sizes(*np.minimum(below + 1, last).tolist())
        upper = graph.node("Gather", [made, above], f"{name}.upper{axis}", axis=axis)
        share = np.clip(place - below, 0, 1).astype(np.float32).reshape(-1, *[1] * (3 - axis))
        step = graph.node("Sub", [upper, lower], f"{name}.step{axis}")
        part = graph.node("Mul", [step, graph.tensor(f"{name}.share{axis}", share)], f"{name}.part{axis}")
        made = graph.node("Add", [lower, part], f"{name}.mixed{axis}")
    return [("Identity", [made], {})]


def _reduce(graph: Graph, operation: ops.Reduce, reads: list[str], name: str) -> list[Step]:
    axes, keep = [axis + 1 for axis in operation.axes], {"keepdims": int(operation.keep)}
    if operation.function == "sum":  # of these alone, opset 13 reads the axes from a tensor
        return [("ReduceSum", [*reads, graph.sizes(*axes)], keep)]
    kind = {"mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin"}[operation.function]
    return [(kind, reads, {"axes": axes, **keep})]


def _adaptive_pool(graph: Graph, operation: ops.AdaptivePool, reads: list[str], name: str) -> list[Step]:
    steps: list[Step] = [("Identity", reads, {})]
    shape = graph.program.shapes[operation.inputs[0]]
    for axis, made in zip((2, 3), operation.size, strict=True):
        side = shape[axis - 1]
        windows = [range(index * side // made, -(-(index + 1) * side // made)) for index in range(made)]
        if operation.function == "max":
            longest = max(map(len, windows))
            # A window that is shorter repeats its last pixel.
            index = np.array([[*window, *[window[-1]] * (longest - len(window))] for window in windows], np.int64)
            steps.append(("Gather", ["", graph.tensor(f"{name}.windows{axis}", index)], {"axis": axis}))
            steps.append(("ReduceMax", [""], {"axes": [axis + 1], "keepdims": 0}))
        else:
            share = np.zeros((side, made), np.float32)
            for index_made, window in enumerate(windows):
                share[list(window), index_made] = 1 / len(window)
            matrix = graph.tensor(f"{name}.share{axis}", share)
            swap: list[Step] = [("Transpose", [""], {"perm": [0, 1, 3, 2]})] if axis == 2 else []
            steps += [*swap, ("MatMul", ["", matrix], {}), *swap]
    return steps


def _argmax(graph: Graph, operation: ops.ArgMax, reads: list[str], name: str) -> list[Step]:
    where: dict[str, Any] = {"axis": operation.axis + 1, "keepdims": int(operation.keep)}
    return [("ArgMax", reads, where), ("Cast", [""], {"to": INT32})]


def _expand(graph: Graph, operation: ops.Expand, reads: list[str], name: str) -> list[Step]:
    rank = len(operation.shape)
    read = graph.aligned(reads[0], _rank(graph, operation.inputs[0]), rank, f"{name}.aligned")
    return [("Expand", [read, graph.sizes(1, *operation.shape)], {})]


NODES: dict[type[ops.Operation], Nodes] = {
    ops.Activation: _activation,
    ops.AdaptivePool: _adaptive_pool,
    ops.ArgMax: _argmax,
    ops.Arithmetic: _arithmetic,
    ops.Attention: _attention,
    ops.Constant: _constant,
    ops.Embedding: _embedding,
    ops.Expand: _expand,
    ops.Matmul: _matmul,
    ops.Normalize: _normalize,
    ops.PRelu: _prelu,
    ops.Pad: _pad,
    ops.Reduce: _reduce,
    ops.Reshape: _reshape,
    ops.Resize: _resize,
    ops.Sign: _sign,
    ops.Slice: _slice,
    ops.Transpose: _transpose,
}
