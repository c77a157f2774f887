"""PyTorch in inference mode with batch norm folded, in the faster of its two memory formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from signwise.bench.engines import Engine, Precision, Runner
from signwise.bench.network import Network, listed, with_float_weights
from signwise.bench.timing import best_seconds
from signwise.errors import SignwiseError
from signwise.program import operations as ops
from signwise.program.program import Examples, Program

if TYPE_CHECKING:
    import torch

    Step: TypeAlias = Callable[[list[torch.Tensor]], torch.Tensor]

_SECONDS_PER_FORMAT = 1.0


class PyTorch(Engine):
    """Float32 alone: PyTorch's 8-bit convolutions have moved to other packages."""

    name = "pytorch"
    title = "PyTorch"
    requires = ("torch",)
    precisions = ("float32",)

    def convert(self, network: Network, precision: Precision, folder: Path) -> Path:
        path = folder / "weights.sw"
        if not path.exists():
            with_float_weights(network.float32).save(path)
        return path

    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        import torch

        torch.set_num_threads(threads)
        program = Program.load(path)
        formats = [torch.contiguous_format]
        if any(len(given.shape) == 3 for given in program.inputs):
            formats.append(torch.channels_last)
        zeros = tuple(np.zeros((batch, *given.shape), given.type) for given in program.inputs)

        def seconds(memory_format: torch.memory_format) -> float:
            # Only one runner is alive at a time, so that the peak memory of the process is that of one.
            run = _runner(program, memory_format)
            return best_seconds(lambda: run(zeros), seconds=_SECONDS_PER_FORMAT, most=3)

        return _runner(program, min(formats, key=seconds))


def _runner(program: Program, memory_format: torch.memory_format) -> Runner:
    import torch

    steps = [_step(program, operation, memory_format) for operation in program.ops]
    last_reader = {value: index for index, operation in enumerate(program.ops) for value in operation.inputs}
    kept, first_made = set(program.outputs), len(program.inputs)

    def run(examples: Examples) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            values: dict[int, torch.Tensor] = {}
            for number, array in enumerate(listed(examples)):
                given = torch.from_numpy(array)
                values[number] = given.contiguous(memory_format=memory_format) if given.dim() == 4 else given
            for index, (operation, step) in enumerate(zip(program.ops, steps, strict=True)):
                values[first_made + index] = step([values[value] for value in operation.inputs])
                for value in set(operation.inputs) - kept:
                    if last_reader[value] == index:
                        del values[value]
            outputs: npt.NDArray[np.float32] = values[program.outputs[0]].numpy()
            return outputs

    return run


def _step(program: Program, operation: ops.Operation, memory_format: torch.memory_format) -> Step:
    """One operation as a function of its inputs; everything that does not depend on them is computed here."""
    import torch
    import torch.nn.functional as F

    match operation:
        case ops.Conv() | ops.Dense() | ops.ConvTranspose():
            return _epilogue(operation, _layer(program, operation, memory_format))
        case ops.Affine():
            # A batch norm, which PyTorch computes in one pass.
            scale, bias = (_tensor(program.tensors[name]) for name in (operation.scale, operation.bias))
            mean, variance = torch.zeros_like(scale), torch.ones_like(scale)
            return _epilogue(operation, lambda x: F.batch_norm(x, mean, variance, scale, bias, eps=0.0))
        case ops.Relu():
            return lambda read: F.relu(read[0])
        case ops.Add():
            relu = operation.relu
            return lambda read: (read[0] + read[1]).relu_() if relu else read[0] + read[1]
        case ops.MaxPool() | ops.AvgPool():
            return _pool(operation)
        case ops.GlobalPool():
            return lambda read: F.adaptive_avg_pool2d(read[0], 1).flatten(1)
        case ops.PadChannels():
            rank = len(program.shapes[operation.inputs[0]])
            edges = [*[0, 0] * (rank - 1), operation.before, operation.after]
            return lambda read: F.pad(read[0], edges)
        case ops.Flatten():
            return lambda read: read[0].flatten(1)
        case ops.Concat():
            dimension = operation.axis + 1
            return lambda read: torch.cat(read, dimension)
        case ops.Softmax():
            axis = operation.axis + 1
            return lambda read: read[0].log_softmax(axis) if operation.log else read[0].softmax(axis)
        case ops.Activation():
            return _activation(operation)
        case ops.Arithmetic():
            return _arithmetic(program, operation)
        case ops.Normalize():
            return _normalize(program, operation)
        case ops.Attention():
            return _attention(program, operation)
        case ops.Embedding():
            table = _tensor(program.tensors[operation.weight])
            return lambda read: F.embedding(read[0], table)
        case ops.Reshape():
            sizes = operation.shape
            return lambda read: read[0].reshape(-1, *sizes)
        case ops.Transpose():
            order = (0, *(axis + 1 for axis in operation.axes))
            return lambda read: read[0].permute(order)
        case ops.Slice():
            along = zip(operation.starts, operation.stops, operation.steps, strict=True)
            where = (slice(None), *(slice(*part) for part in along))
            return lambda read: read[0][where]
    raise SignwiseError(f"PyTorch's comparison does not know the operation {operation.kind!r}")


def _activation(operation: ops.Activation) -> Step:
    import torch
    import torch.nn.functional as F

    numbers: Any = operation.numbers
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "clip": lambda x: x.clamp(*numbers),
        "leaky_relu": lambda x: F.leaky_relu(x, *numbers),
        "silu": F.silu,
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "sigmoid": torch.sigmoid,
        "hardsigmoid": F.hardsigmoid,
        "hardswish": F.hardswish,
        "tanh": torch.tanh,
        "negate": torch.neg,
        "sin": torch.sin,
        "cos": torch.cos,
    }
    if operation.function not in functions:
        raise SignwiseError(f"PyTorch's comparison does not know the activation {operation.function!r}")
    function = functions[operation.function]
    return lambda read: function(read[0])


def _arithmetic(program: Program, operation: ops.Arithmetic) -> Step:
    import torch

    functions: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
        "add": torch.add,
        "subtract": torch.sub,
        "multiply": torch.mul,
        "divide": torch.div,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "power": torch.pow,
    }
    function = functions[operation.function]
    shapes = [program.shapes[value] for value in operation.inputs]
    constant = None if operation.operand is None else _tensor(program.tensors[operation.operand])
    if operation.shape is not None:
        shapes.append(operation.shape)
    rank = max(map(len, shapes))

    def aligned(value: torch.Tensor) -> torch.Tensor:
        """The batch first, the rest at the last dimensions, as numpy broadcasts."""
        return value.reshape(len(value), *[1] * (rank + 1 - value.dim()), *value.shape[1:])

    def combine(read: list[torch.Tensor]) -> torch.Tensor:
        first, second = (aligned(value) for value in (read if constant is None else [*read, constant[None]]))
        made = function(second, first) if operation.swapped else function(first, second)
        return made.relu_() if operation.relu else made

    return combine


def _normalize(program: Program, operation: ops.Normalize) -> Step:
    import torch.nn.functional as F

    shape = program.shapes[operation.inputs[0]]
    last = tuple(range(len(shape) - len(operation.axes), len(shape)))
    if operation.axes != last or operation.per_channel:
        raise SignwiseError("PyTorch's comparison knows layer and RMS norms alone")
    sizes = shape[-len(last) :]
    names = (operation.scale, operation.bias)
    scale, bias = (None if name is None else _tensor(program.tensors[name]) for name in names)
    if operation.centered:
        return lambda read: F.layer_norm(read[0], sizes, scale, bias, operation.epsilon)
    if bias is not None:
        raise SignwiseError("PyTorch's RMS norm has no bias")
    return lambda read: F.rms_norm(read[0], sizes, scale, operation.epsilon)


def _attention(program: Program, operation: ops.Attention) -> Step:
    import torch.nn.functional as F

    mask = None if operation.mask is None else _tensor(program.tensors[operation.mask])
    query, key = (program.shapes[value] for value in operation.inputs[:2])
    shared = len(query) > 2 and query[-3] != key[-3]

    def attend(read: list[torch.Tensor]) -> torch.Tensor:
        queries, keys, values, *masks = read
        added = masks[0] if masks else mask
        return F.scaled_dot_product_attention(
            queries, keys, values, added, is_causal=operation.causal, scale=operation.scale, enable_gqa=shared
        )

    return attend


def _tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    import torch

    return torch.from_numpy(array.copy())


def _epilogue(operation: ops.Weighted | ops.Affine, compute: Callable[[torch.Tensor], torch.Tensor]) -> Step:
    relu = operation.relu

    def step(read: list[torch.Tensor]) -> torch.Tensor:
        made = compute(read[0])
        if len(read) == 2:
            made += read[1]
        return made.relu_() if relu else made

    return step


def _layer(
    program: Program, operation: ops.Conv | ops.Dense | ops.ConvTranspose, memory_format: torch.memory_format
) -> Callable[[torch.Tensor], torch.Tensor]:
    import torch.nn.functional as F

    weight = _tensor(program.tensors[operation.weight])
    bias = None if operation.bias is None else _tensor(program.tensors[operation.bias])
    if isinstance(operation, ops.Dense):
        return lambda x: F.linear(x, weight, bias)
    stride, dilation, groups = operation.stride, operation.dilation, operation.groups
    edges, inside = _padding(operation.padding)
    if isinstance(operation, ops.ConvTranspose):
        if edges:
            raise SignwiseError("PyTorch's transposed convolutions cut off as much on either side")
        # (groups · filters, in, ...) -> (groups · in, filters, ...)
        turned = weight.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1).contiguous(memory_format=memory_format)
        more = operation.output_padding
        return lambda x: F.conv_transpose2d(x, turned, bias, stride, inside, more, groups, dilation)
    weight = weight.contiguous(memory_format=memory_format)

    def convolve(images: torch.Tensor) -> torch.Tensor:
        padded = F.pad(images, edges) if edges else images
        return F.conv2d(padded, weight, bias, stride, inside, dilation, groups)

    return convolve


def _padding(padding: ops.Padding) -> tuple[list[int], tuple[int, int]]:
    """The zeros to add beforehand (none where both sides agree), and the zeros that the layer itself adds."""
    top, left, bottom, right = padding
    return ([], (top, left)) if (top, left) == (bottom, right) else ([left, right, top, bottom], (0, 0))


def _pool(operation: ops.MaxPool | ops.AvgPool) -> Step:
    import torch.nn.functional as F

    kernel, stride = operation.kernel, operation.stride
    top, left, bottom, right = operation.padding
    if isinstance(operation, ops.MaxPool):
        edges = [left, right, top, bottom]

        def largest(read: list[torch.Tensor]) -> torch.Tensor:
            padded = F.pad(read[0], edges, value=float("-inf")) if any(edges) else read[0]
            return F.max_pool2d(padded, kernel, stride)

        return largest
    if (top, left) == (bottom, right) and 2 * top <= kernel[0] and 2 * left <= kernel[1]:
        include = operation.count_include_pad
        return lambda read: F.avg_pool2d(read[0], kernel, stride, (top, left), False, include)

    def mean(read: list[torch.Tensor]) -> torch.Tensor:
        images = read[0]
        edges = [left, right, top, bottom]
        total = F.avg_pool2d(F.pad(images, edges), kernel, stride)
        if operation.count_include_pad:
            return total
        seen = F.avg_pool2d(F.pad(images.new_ones(1, 1, *images.shape[2:]), edges), kernel, stride)
        return total / seen

    return mean
