"""PyTorch in inference mode with batch norm folded, in the faster of its two memory formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from signwise.bench.engines import Engine, Precision, Runner
from signwise.bench.network import Network, with_float_weights
from signwise.bench.timing import best_seconds
from signwise.program import operations as ops
from signwise.program.program import Program

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
        if len(program.input_shape) == 3:
            formats.append(torch.channels_last)
        zeros = np.zeros((batch, *program.input_shape), np.float32)

        def seconds(memory_format: torch.memory_format) -> float:
            # Only one runner is alive at a time, so that the peak memory of the process is that of one.
            run = _runner(program, memory_format)
            return best_seconds(lambda: run(zeros), seconds=_SECONDS_PER_FORMAT, most=3)

        return _runner(program, min(formats, key=seconds))


def _runner(program: Program, memory_format: torch.memory_format) -> Runner:
    import torch

    steps = [_step(program, operation, memory_format) for operation in program.ops]
    last_reader = {value: index for index, operation in enumerate(program.ops) for value in operation.inputs}

    def run(examples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            first = torch.from_numpy(examples)
            if first.dim() == 4:
                first = first.contiguous(memory_format=memory_format)
            values: dict[int, torch.Tensor] = {0: first}
            for index, (operation, step) in enumerate(zip(program.ops, steps, strict=True)):
                values[index + 1] = step([values[value] for value in operation.inputs])
                for value in set(operation.inputs):
                    if last_reader[value] == index and value != program.output:
                        del values[value]
            outputs: npt.NDArray[np.float32] = values[program.output].numpy()
            return outputs

    return run


def _step(program: Program, operation: ops.Operation, memory_format: torch.memory_format) -> Step:
    """One operation as a function of its inputs; everything that does not depend on them is computed here."""
    import torch
    import torch.nn.functional as F

    match operation:
        case ops.Conv() | ops.Dense():
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
            return lambda read: torch.cat(read, 1)
        case ops.Softmax():
            return lambda read: read[0].softmax(1)
    raise TypeError(f"unknown operation {type(operation).__name__}")


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
    program: Program, operation: ops.Conv | ops.Dense, memory_format: torch.memory_format
) -> Callable[[torch.Tensor], torch.Tensor]:
    import torch.nn.functional as F

    weight = _tensor(program.tensors[operation.weight])
    bias = None if operation.bias is None else _tensor(program.tensors[operation.bias])
    if isinstance(operation, ops.Dense):
        return lambda x: F.linear(x, weight, bias)
    weight = weight.contiguous(memory_format=memory_format)
    stride, dilation, groups = operation.stride, operation.dilation, operation.groups
    edges, inside = _padding(operation.padding)

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
