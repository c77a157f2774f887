"""Whether the operations of a program fit together: values, shapes, tensors and sizes.

Everything is checked before anything runs, with the sizes that a reader will need worked out from numbers alone, so a
hostile file costs no more memory than its own bytes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from signwise.errors import FormatError
from signwise.program import operations as ops

Shape: TypeAlias = tuple[int, ...]
Tensors: TypeAlias = Mapping[str, npt.NDArray[Any]]

LARGEST_OPERATIONS = 4096
LARGEST_ACTIVATIONS = 2**28  # numbers an example, padding included, over all values: 1 GiB of float32
LARGEST_WORK = 2**40  # additions or multiplications an example: a hundred times a ResNet-152
LARGEST_READERS = 64  # operations that share one weight: each may keep a copy in the order of its kernels
LARGEST_TERMS = 2**23  # of one binary dot product: 255 times as much still fits a 32-bit integer


def check_input_shape(shape: Shape) -> None:
    if not isinstance(shape, tuple) or len(shape) not in (1, 3):
        raise FormatError(f"input shape must be [features] or [channels, height, width], got {shape!r}")
    for size in shape:
        ops.check_integer("input shape", size, 1, LARGEST_ACTIVATIONS)


def infer_shapes(input_shape: Shape, operations: Sequence[ops.Operation]) -> tuple[Shape, ...]:
    """The shape of every value, batch aside; what does not fit together is refused by the number of its operation.

    Args:
        input_shape: shape of value 0.
        operations: in order; operation i makes value i + 1.

    Returns:
        One shape a value, the input's first.

    Example:
        >>> infer_shapes((3, 8, 8), [ops.Flatten(inputs=(0,)), ops.Relu(inputs=(1,))])
        ((3, 8, 8), (192,), (192,))
    """
    check_input_shape(input_shape)
    if not len(operations) <= LARGEST_OPERATIONS:
        raise FormatError(f"a program may have {LARGEST_OPERATIONS} operations, got {len(operations)}")
    shapes = [input_shape]
    activations, work = math.prod(input_shape), 0
    for index, operation in enumerate(operations):
        with_name = f"operation {index} ({operation.kind})"
        for value in operation.inputs:
            if value >= len(shapes):
                raise FormatError(f"{with_name}: reads value {value}, which is not made before it")
        inputs = [shapes[value] for value in operation.inputs]
        try:
            shape = output_shape(operation, inputs)
        except FormatError as error:
            raise FormatError(f"{with_name}: {error}") from None
        activations += math.prod(shape) + _padding_of(operation, inputs[0])
        work += _work_of(operation, inputs[0], shape)
        if activations > LARGEST_ACTIVATIONS:
            raise FormatError(f"{with_name}: values exceed the limit of {LARGEST_ACTIVATIONS} numbers an example")
        if work > LARGEST_WORK:
            raise FormatError(f"{with_name}: exceeds the limit of {LARGEST_WORK} operations of arithmetic an example")
        shapes.append(shape)
    return tuple(shapes)


def output_shape(operation: ops.Operation, inputs: Sequence[Shape]) -> Shape:
    """The shape that one operation makes of its inputs' shapes."""
    first = inputs[0]
    match operation:
        case ops.Conv():
            channels, height, width = _image(first)
            if channels % operation.groups:
                raise FormatError(f"{channels} input channels are no multiple of groups {operation.groups}")
            made: Shape = (operation.out_channels, *_window(operation, height, width, operation.dilation))
            _check_layer(operation, inputs, made)
            return made
        case ops.Dense():
            if first != (operation.in_features,):
                raise FormatError(f"in_features is {operation.in_features}, but its input has shape {list(first)}")
            _check_layer(operation, inputs, (operation.out_features,))
            return (operation.out_features,)
        case ops.Add():
            if inputs[1] != first:
                raise FormatError(f"adds shapes {list(first)} and {list(inputs[1])}, which differ")
            return first
        case ops.Pool():
            channels, height, width = _image(first)
            return (channels, *_window(operation, height, width, (1, 1)))
        case ops.GlobalPool():
            return (_image(first)[0],)
        case ops.PadChannels():
            return (operation.before + first[0] + operation.after, *first[1:])
        case ops.Flatten():
            return (math.prod(first),)
        case ops.Concat():
            if any(shape[1:] != first[1:] for shape in inputs):
                raise FormatError(f"joins shapes {[list(shape) for shape in inputs]}, which differ beyond the channels")
            return (sum(shape[0] for shape in inputs), *first[1:])
        case ops.Softmax():
            if len(first) != 1:
                raise FormatError(f"needs a vector, but its input has shape {list(first)}")
            return first
        case ops.Affine() | ops.Relu():
            return first
    raise TypeError(f"unknown operation {type(operation).__name__}")


def check_tensors(operations: Sequence[ops.Operation], shapes: Sequence[Shape], tensors: Tensors) -> None:
    """Each tensor is used, and is what its operation needs: there, of the right type and shape, finite, pad bits 0."""
    used: set[str] = set()
    readers: Counter[str] = Counter()
    for index, operation in enumerate(operations):
        inputs = [shapes[value] for value in operation.inputs]
        for attribute, name, dtype, shape in _tensors_of(operation, inputs):
            where = f"operation {index} ({operation.kind}): {attribute} {name!r}"
            if name not in tensors:
                raise FormatError(f"{where} is missing from the file")
            tensor = tensors[name]
            if tensor.dtype != dtype or tensor.shape != shape:
                found = f"{tensor.dtype} {list(tensor.shape)}"
                raise FormatError(f"{where} must be {np.dtype(dtype)} {list(shape)}, got {found}")
            used.add(name)
        if isinstance(operation, ops.Weighted):
            readers[operation.weight] += 1
            if readers[operation.weight] > LARGEST_READERS:
                raise FormatError(f"more than {LARGEST_READERS} operations share the weight {operation.weight!r}")
            if operation.bits == 1:
                _check_pad_bits(f"operation {index} ({operation.kind})", operation, inputs[0], tensors)
    if unused := sorted(set(tensors) - used):
        raise FormatError(f"no operation uses tensor {unused[0]!r}")
    for name, tensor in tensors.items():
        if tensor.dtype == np.float32 and not np.isfinite(tensor).all():
            raise FormatError(f"tensor {name!r} holds a number that is not finite")


def terms_of(operation: ops.Weighted, input_shape: Shape) -> int:
    """Length of one dot product: the weights of one filter or neuron."""
    if isinstance(operation, ops.Conv):
        return input_shape[0] // operation.groups * math.prod(operation.kernel)
    return math.prod(input_shape)


def _image(shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise FormatError(f"needs an image, but its input has shape {list(shape)}")
    channels, height, width = shape
    return channels, height, width


def _window(operation: ops.Conv | ops.Pool, height: int, width: int, dilation: tuple[int, int]) -> tuple[int, int]:
    top, left, bottom, right = operation.padding
    sizes = []
    for axis, size in enumerate((height + top + bottom, width + left + right)):
        extent = dilation[axis] * (operation.kernel[axis] - 1) + 1
        if extent > size:
            raise FormatError(f"a window of {extent} does not fit the padded {('height', 'width')[axis]} of {size}")
        sizes.append((size - extent) // operation.stride[axis] + 1)
    return sizes[0], sizes[1]


def _check_layer(operation: ops.Weighted, inputs: Sequence[Shape], made: Shape) -> None:
    terms = terms_of(operation, inputs[0])
    if operation.bits == 1 and terms > LARGEST_TERMS:
        raise FormatError(f"a binary dot product may have {LARGEST_TERMS} terms, got {terms}")
    if len(inputs) == 2 and inputs[1] != made:
        raise FormatError(f"the residual has shape {list(inputs[1])}, the result {list(made)}")


def _padding_of(operation: ops.Operation, first: Shape) -> int:
    if isinstance(operation, ops.Conv | ops.Pool):
        top, left, bottom, right = operation.padding
        return first[0] * (first[1] + top + bottom) * (first[2] + left + right) if any(operation.padding) else 0
    return 0


def _work_of(operation: ops.Operation, first: Shape, made: Shape) -> int:
    if isinstance(operation, ops.Weighted):
        return terms_of(operation, first) * math.prod(made)
    if isinstance(operation, ops.MaxPool | ops.AvgPool):
        return math.prod(operation.kernel) * math.prod(made)
    return math.prod(first)


def _tensors_of(
    operation: ops.Operation, inputs: Sequence[Shape]
) -> Iterator[tuple[str, str, type[np.generic], Shape]]:
    match operation:
        case ops.Conv() | ops.Dense():
            rows = operation.out_channels if isinstance(operation, ops.Conv) else operation.out_features
            terms = terms_of(operation, inputs[0])
            if operation.bits == 1:
                yield "weight", operation.weight, np.uint8, (rows, (terms + 7) // 8)
            elif isinstance(operation, ops.Conv):
                filters = (rows, inputs[0][0] // operation.groups, *operation.kernel)
                yield "weight", operation.weight, np.float32, filters
            else:
                yield "weight", operation.weight, np.float32, (rows, terms)
            if operation.scale is not None:
                yield "scale", operation.scale, np.float32, (rows,)
            if operation.bias is not None:
                yield "bias", operation.bias, np.float32, (rows,)
        case ops.Affine():
            yield "scale", operation.scale, np.float32, inputs[0][:1]
            yield "bias", operation.bias, np.float32, inputs[0][:1]


def _check_pad_bits(where: str, operation: ops.Weighted, input_shape: Shape, tensors: Tensors) -> None:
    used_bits = terms_of(operation, input_shape) % 8
    # One meaning, one file: bits beyond the last weight of a row are zero.
    if used_bits and (tensors[operation.weight][:, -1] >> used_bits).any():
        raise FormatError(f"{where}: weight {operation.weight!r} has pad bits that are not zero")
