"""A program run with numpy alone: the meaning of every operation, written as plainly as it can be.

It is what the native kernels are tested against, and what runs where they cannot be built. Sums are taken in float64,
where 8-bit integers times a float32 scale are exact, so one path serves float32 and 8-bit programs alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from signwise.program import operations as ops
from signwise.program.bits import unpack_signs
from signwise.program.program import Program

Array: TypeAlias = npt.NDArray[np.floating[Any]]


def run(program: Program, examples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The answers of a program to a batch of examples.

    Args:
        program: what to run.
        examples: ``(batch, *program.input_shape)``, of any real type.

    Returns:
        float32 of shape ``(batch, *program.output_shape)``.

    Example:
        >>> program = Program(input_shape=(2,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
        >>> run(program, np.array([[-1.0, 2.0]]))
        array([[0., 2.]], dtype=float32)
    """
    output = program.output
    for value, computed in values(program, examples):
        if value == output:
            answer = _dequantize(computed, program.quantization(output), np.float64)
    return answer.astype(np.float32)


def values(
    program: Program, examples: npt.NDArray[Any], precision: type[np.floating[Any]] = np.float64
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Every value of a program with its number, as soon as it is computed, the input first.

    Args:
        program: what to run.
        examples: ``(batch, *program.input_shape)``, of any real type.
        precision: in what to compute; float32 is quicker, and no longer exact for 8-bit values.

    Yields:
        Numbers and values; 8-bit values as integers, without their scale.
    """
    kept: dict[int, npt.NDArray[Any]] = {0: program.as_input(examples)}
    yield 0, kept[0]
    last_reader = {value: index for index, operation in enumerate(program.ops) for value in operation.inputs}
    for index, operation in enumerate(program.ops):
        inputs = [_dequantize(kept[value], program.quantization(value), precision) for value in operation.inputs]
        kept[index + 1] = _quantize(_evaluate(program, operation, inputs), operation.out)
        yield index + 1, kept[index + 1]
        for value in set(operation.inputs):
            if last_reader[value] == index:
                del kept[value]


def _dequantize(value: npt.NDArray[Any], kept: ops.Quantized | None, precision: type[np.floating[Any]]) -> Array:
    wide = value.astype(precision, copy=False)
    return wide if kept is None else wide * precision(kept.scale)


def _quantize(result: Array, kept: ops.Quantized | None) -> npt.NDArray[Any]:
    if kept is None:
        return result.astype(np.float32)
    # rint rounds halves to even, and the clamp comes before the cast: a cast of what does not fit is undefined.
    clamped: Array = np.clip(np.rint(result / kept.scale), *kept.limits)
    return clamped.astype(np.int8 if kept.type == "int8" else np.uint8)


def _evaluate(program: Program, operation: ops.Operation, inputs: list[Array]) -> Array:
    first, made = inputs[0], inputs[0]
    match operation:
        case ops.Conv():
            made = _epilogue(program, operation, _convolve(program, operation, first), inputs[1:])
        case ops.Dense():
            shape = (operation.out_features, operation.in_features)
            weight = _weight(program, operation, shape, first.dtype)
            made = _epilogue(program, operation, first @ weight.T, inputs[1:])
        case ops.Affine():
            scaled = _channels(program, operation.scale, first) * first
            made = _relu(scaled + _channels(program, operation.bias, first), operation.relu)
        case ops.Relu():
            made = _relu(first, True)
        case ops.Add():
            made = _relu(first + inputs[1], operation.relu)
        case ops.MaxPool():
            made = _windows(operation, first, fill=-math.inf).max(axis=(-2, -1))
        case ops.AvgPool():
            counted = np.ones((1, 1, *first.shape[2:]))
            count = _windows(operation, counted, fill=float(operation.count_include_pad)).sum(axis=(-2, -1))
            made = _windows(operation, first, fill=0).sum(axis=(-2, -1)) / count
        case ops.GlobalPool():
            made = first.mean(axis=(2, 3))
        case ops.PadChannels():
            edges = [(0, 0), (operation.before, operation.after), *[(0, 0)] * (first.ndim - 2)]
            made = np.pad(first, edges)
        case ops.Flatten():
            made = first.reshape(len(first), math.prod(first.shape[1:]))
        case ops.Concat():
            made = np.concatenate(inputs, axis=1)
        case ops.Softmax():
            powers = np.exp(first - first.max(axis=1, keepdims=True))
            made = powers / powers.sum(axis=1, keepdims=True)
        case _:
            raise TypeError(f"unknown operation {type(operation).__name__}")
    return made


def _weight(program: Program, operation: ops.Weighted, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    tensor = program.tensors[operation.weight]
    return (unpack_signs(tensor, shape) if operation.bits == 1 else tensor.reshape(shape)).astype(dtype)


def _convolve(program: Program, operation: ops.Conv, images: Array) -> Array:
    batch, channels = images.shape[:2]
    groups, (kernel_height, kernel_width) = operation.groups, operation.kernel
    shape = (operation.out_channels, channels // groups, kernel_height, kernel_width)
    weight = _weight(program, operation, shape, images.dtype).reshape(groups, -1, *shape[1:])
    # (groups, filters, in, kh, kw) -> (kh, kw, groups, filters, in), a matrix for each tap
    taps = np.ascontiguousarray(weight.transpose(3, 4, 0, 1, 2))
    padded = _pad(operation.padding, images, fill=0)
    height, width = (
        (size - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, dilation in zip(
            padded.shape[2:], operation.kernel, operation.stride, operation.dilation, strict=True
        )
    )
    total = np.zeros((batch, groups, operation.out_channels // groups, height * width), images.dtype)
    for row in range(kernel_height):
        for column in range(kernel_width):
            # The pixels that this tap of the filter meets, one for each pixel of the result.
            top, left = row * operation.dilation[0], column * operation.dilation[1]
            rows = slice(top, top + (height - 1) * operation.stride[0] + 1, operation.stride[0])
            columns = slice(left, left + (width - 1) * operation.stride[1] + 1, operation.stride[1])
            pixels = padded[:, :, rows, columns].reshape(batch, groups, channels // groups, height * width)
            total += taps[row, column] @ pixels
    return total.reshape(batch, operation.out_channels, height, width)


def _epilogue(program: Program, operation: ops.Weighted, total: Array, residual: list[Array]) -> Array:
    if operation.scale is not None:
        total = total * _channels(program, operation.scale, total)
    if operation.bias is not None:
        total = total + _channels(program, operation.bias, total)
    if residual:
        total = total + residual[0]
    return _relu(total, operation.relu)


def _relu(values: Array, wanted: bool) -> Array:
    return np.maximum(values, 0) if wanted else values


def _channels(program: Program, name: str, like: Array) -> Array:
    # (channels,) -> (1, channels, 1, 1) beside images, (1, channels) beside vectors
    return program.tensors[name].astype(like.dtype).reshape(1, -1, *[1] * (like.ndim - 2))


def _pad(padding: ops.Padding, images: Array, fill: float) -> Array:
    top, left, bottom, right = padding
    return np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)


def _windows(operation: ops.Pool, images: Array, fill: float) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(_pad(operation.padding, images, fill), operation.kernel, (2, 3))
    return windows[:, :, :: operation.stride[0], :: operation.stride[1]]
