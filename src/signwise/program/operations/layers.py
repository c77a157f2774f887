"""Layers with weights: convolutions and dense layers, with one bit or 32 bits per weight.

Signs as bits have one layout, for files, kernels and packed PyTorch layers. A row is one filter or neuron. Bit i of a
row is its sign i, in memory order: 1 for +1, 0 for -1. The first sign is the lowest bit of the first byte, and zero
bits pad every row to whole bytes.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from signwise.errors import FormatError, SignwiseError
from signwise.program.operations.base import (
    LARGEST_SIZE,
    Array,
    NativeField,
    Operation,
    Padding,
    Pair,
    Shape,
    Tensors,
    TensorSpec,
    check_flag,
    check_integer,
    check_tensor_name,
    check_window,
    need_image,
    pad,
    padded_size,
    positions,
    relu_if,
    window_shape,
)

LARGEST_TERMS = 2**23  # of one binary dot product: 255 times as much still fits a 32-bit integer


@dataclass(frozen=True, kw_only=True)
class Weighted(Operation):
    """A layer with weights and its epilogue, y = relu(scale * sum + bias + residual), scale and bias per channel.

    Args:
        inputs: the layer's input, and optionally the residual, which has the shape of the result.
        weight: name of the tensor: bits in rows of whole bytes (uint8), or float32 in PyTorch's layout.
        bits: 1 for binary weights, 32 for float weights.
        scale, bias: names of float32 tensors with one number per channel; ``None`` means 1 and 0.
        relu: whether negative results become 0.
    """

    arity: ClassVar[tuple[int, int]] = (1, 2)
    tensor_attributes: ClassVar[tuple[str, ...]] = ("weight", "scale", "bias")

    weight: str
    bits: int
    scale: str | None = None
    bias: str | None = None
    relu: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tensor_name("weight", self.weight)
        if type(self.bits) is not int or self.bits not in (1, 32):
            raise FormatError(f"bits must be 1 or 32, got {reprlib.repr(self.bits)}")
        check_tensor_name("scale", self.scale, optional=True)
        check_tensor_name("bias", self.bias, optional=True)
        check_flag("relu", self.relu)

    def weight_shape(self, read: Shape) -> Shape:
        """The shape of the weights, filters first, for an input of shape ``read``."""
        raise NotImplementedError(f"{type(self).__name__} has no weight_shape")

    def terms(self, read: Shape) -> int:
        """Length of one dot product: the weights of one filter or neuron."""
        return math.prod(self.weight_shape(read)[1:])

    def unpacked_weight(self, tensors: Tensors, read: Shape) -> npt.NDArray[np.generic]:
        """Signs as int8, or float32 weights, in :meth:`weight_shape`."""
        weight, shape = tensors[self.weight], self.weight_shape(read)
        return unpack_signs(weight, shape) if self.bits == 1 else weight.reshape(shape)

    def float_weight(self, tensors: Tensors, read: Shape) -> npt.NDArray[np.float32]:
        """The weights as float32 in PyTorch's layout, multiplied by the scale of their filter.

        Args:
            tensors: the program's tensors.
            read: the shape of the layer's input.

        Example:
            >>> layer = Dense(inputs=(0,), weight="w", bits=1, scale="s", out_features=1, in_features=3)
            >>> tensors = {"w": np.array([[5]], np.uint8), "s": np.array([0.5], np.float32)}
            >>> layer.float_weight(tensors, (3,)).tolist()
            [[0.5, -0.5, 0.5]]
        """
        weight = self.unpacked_weight(tensors, read)
        if self.scale is None:
            return weight.astype(np.float32)
        scale = tensors[self.scale].reshape(-1, *[1] * (weight.ndim - 1))  # (out,) -> (out, 1, ...)
        scaled: npt.NDArray[np.float32] = np.multiply(weight, scale, dtype=np.float32)
        return scaled

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        shape = self.weight_shape(inputs[0])
        if self.bits == 1:
            yield TensorSpec("weight", self.weight, np.uint8, (shape[0], (math.prod(shape[1:]) + 7) // 8))
        else:
            yield TensorSpec("weight", self.weight, np.float32, shape)
        if self.scale is not None:
            yield TensorSpec("scale", self.scale, np.float32, shape[:1])
        if self.bias is not None:
            yield TensorSpec("bias", self.bias, np.float32, shape[:1])

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return self.terms(inputs[0]) * math.prod(output)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {
            "weight": tensors[self.weight],
            "bits": self.bits,
            "scale": None if self.scale is None else tensors[self.scale],
            "bias": None if self.bias is None else tensors[self.bias],
            "relu": self.relu,
        }

    @property
    def integer_inputs(self) -> tuple[int, ...]:
        return self.inputs[:1] if self.bits == 1 else ()

    def _check_shapes(self, inputs: Sequence[Shape], output: Shape) -> Shape:
        terms = self.terms(inputs[0])
        if self.bits == 1 and terms > LARGEST_TERMS:
            raise FormatError(f"a binary dot product may have {LARGEST_TERMS} terms, got {terms}")
        if len(inputs) == 2 and inputs[1] != output:
            raise FormatError(f"the residual has shape {list(inputs[1])}, the result {list(output)}")
        return output

    def _epilogue(self, total: Array, residual: Sequence[Array], tensors: Tensors, axis: int = 1) -> Array:
        spread = [1] * total.ndim
        spread[axis] = -1
        if self.scale is not None:
            total = total * tensors[self.scale].astype(total.dtype).reshape(spread)
        if self.bias is not None:
            total = total + tensors[self.bias].astype(total.dtype).reshape(spread)
        if residual:
            total = total + residual[0]
        return relu_if(self.relu, total)


@dataclass(frozen=True, kw_only=True)
class Conv(Weighted):
    """A two-dimensional convolution (cross-correlation, as in PyTorch) of a zero-padded image.

    Args:
        out_channels: number of filters.
        kernel, stride, dilation: height and width.
        padding: zeros added at the top, left, bottom and right.
        groups: input and output channels are split into this many independent parts.
    """

    kind: ClassVar[str] = "conv"
    since: ClassVar[int] = 1
    number: ClassVar[int] = 0

    out_channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("out_channels", self.out_channels, 1, LARGEST_SIZE)
        check_window(self.kernel, self.stride, self.padding, self.dilation)
        check_integer("groups", self.groups, 1, LARGEST_SIZE)
        if self.out_channels % self.groups:
            raise FormatError(f"out_channels must be a multiple of groups, got {self.out_channels} and {self.groups}")

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, _, _ = need_image(inputs[0])
        if channels % self.groups:
            raise FormatError(f"{channels} input channels are no multiple of groups {self.groups}")
        size = window_shape(inputs[0], self.kernel, self.stride, self.padding, self.dilation)
        return self._check_shapes(inputs, (self.out_channels, *size))

    def weight_shape(self, read: Shape) -> Shape:
        return (self.out_channels, read[0] // self.groups, *self.kernel)

    def padded_size(self, inputs: Sequence[Shape]) -> int:
        return padded_size(inputs, self.padding)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return self._epilogue(self._sums(inputs[0], tensors), inputs[1:], tensors)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return super().native_fields(tensors) | {
            "out_channels": self.out_channels,
            "kernel": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
        }

    @property
    def gains_from_six_bits(self) -> bool:
        # The Winograd kernels of csrc: 3x3 convolutions of binary weights, in steps of one or two.
        is_3x3 = (self.kernel, self.dilation) == ((3, 3), (1, 1))
        return self.bits == 1 and is_3x3 and self.stride in ((1, 1), (2, 2))

    def _sums(self, images: Array, tensors: Tensors) -> Array:
        batch, channels = images.shape[:2]
        groups, (kernel_height, kernel_width) = self.groups, self.kernel
        weight = self.unpacked_weight(tensors, images.shape[1:]).astype(images.dtype)
        # (groups · filters, in, kh, kw) -> (kh, kw, groups, filters, in): one matrix per tap
        taps = np.ascontiguousarray(weight.reshape(groups, -1, *weight.shape[1:]).transpose(3, 4, 0, 1, 2))
        padded = pad(images, self.padding)
        height, width = (
            positions(*along) for along in zip(padded.shape[2:], self.kernel, self.stride, self.dilation, strict=True)
        )
        total = np.zeros((batch, groups, self.out_channels // groups, height * width), images.dtype)
        for row in range(kernel_height):
            for column in range(kernel_width):
                # The pixels that this tap of the filter meets, one for each pixel of the result.
                top, left = row * self.dilation[0], column * self.dilation[1]
                rows = slice(top, top + (height - 1) * self.stride[0] + 1, self.stride[0])
                columns = slice(left, left + (width - 1) * self.stride[1] + 1, self.stride[1])
                pixels = padded[:, :, rows, columns].reshape(batch, groups, channels // groups, height * width)
                total += taps[row, column] @ pixels
        return total.reshape(batch, self.out_channels, height, width)


@dataclass(frozen=True, kw_only=True)
class Dense(Weighted):
    """A fully connected layer on a vector, or on each vector along the last dimension, such as the tokens of a text.

    Args:
        out_features, in_features: neurons, and inputs of each.
        blocks: the inputs of a neuron with binary weights are split into this many equal parts, each with a scale.
        block_scale: name of a float32 tensor with one number per neuron and block; ``None`` where there is one block.
    """

    kind: ClassVar[str] = "dense"
    since: ClassVar[int] = 1
    number: ClassVar[int] = 1
    added_attributes: ClassVar[tuple[str, ...]] = ("blocks", "block_scale")
    tensor_attributes: ClassVar[tuple[str, ...]] = (*Weighted.tensor_attributes, "block_scale")

    out_features: int
    in_features: int
    blocks: int = 1
    block_scale: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("out_features", self.out_features, 1, LARGEST_SIZE)
        check_integer("in_features", self.in_features, 1, LARGEST_SIZE)
        check_integer("blocks", self.blocks, 1, self.in_features)
        check_tensor_name("block_scale", self.block_scale, optional=True)
        if self.in_features % self.blocks:
            raise FormatError(f"in_features must be a multiple of blocks, got {self.in_features} and {self.blocks}")
        if (self.block_scale is None) != (self.blocks == 1):
            raise FormatError(
                f"block_scale belongs to several blocks, got {self.block_scale!r} and {self.blocks} blocks"
            )
        if self.blocks > 1 and self.bits != 1:
            raise FormatError(f"blocks need weights of 1 bit, got {self.bits} bits")

    def version(self, inputs: Sequence[Shape]) -> int:
        return super().version(inputs) if len(inputs[0]) == 1 else 2

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        if inputs[0][-1:] != (self.in_features,):
            raise FormatError(f"in_features is {self.in_features}, but its input has shape {list(inputs[0])}")
        return self._check_shapes(inputs, (*inputs[0][:-1], self.out_features))

    def weight_shape(self, read: Shape) -> Shape:
        return (self.out_features, self.in_features)

    def unpacked_weight(self, tensors: Tensors, read: Shape) -> npt.NDArray[np.generic]:
        """As for every layer; with blocks, float32 with the scales of the blocks multiplied in."""
        weight = super().unpacked_weight(tensors, read)
        if self.block_scale is None:
            return weight
        return weight * tensors[self.block_scale].repeat(self.in_features // self.blocks, axis=1)

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        yield from super().tensors(inputs)
        if self.block_scale is not None:
            yield TensorSpec("block_scale", self.block_scale, np.float32, (self.out_features, self.blocks))

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        weight = self.unpacked_weight(tensors, inputs[0].shape[1:]).astype(inputs[0].dtype)
        return self._epilogue(inputs[0] @ weight.T, inputs[1:], tensors, axis=-1)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        table = None if self.block_scale is None else tensors[self.block_scale]
        return super().native_fields(tensors) | {"out_channels": self.out_features, "table": table}

    @property
    def integer_inputs(self) -> tuple[int, ...]:
        # Sums of blocks are scaled before they are added, so integers gain nothing.
        return super().integer_inputs if self.blocks == 1 else ()


def pack_signs(signs: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Rows of -1 and +1 to rows of bytes.

    Args:
        signs: ``(rows, ...)``; everything after the first dimension is one row, in memory order.

    Returns:
        uint8 of shape ``(rows, ceil(n / 8))``, where n is the length of a row.

    Example:
        >>> pack_signs(np.array([[1, -1, -1, 1, 1, -1, -1, -1, 1]])).tolist()
        [[25, 1]]
    """
    if not np.isin(signs, (-1, 1)).all():
        raise SignwiseError("only -1 and +1 can be packed to one bit")
    rows = signs.reshape(signs.shape[0], -1)  # (out, in, kh, kw) -> (out, n)
    return np.packbits(rows > 0, axis=1, bitorder="little")


def unpack_signs(packed: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
    """The inverse of :func:`pack_signs`.

    Args:
        packed: uint8 of shape ``(rows, ceil(n / 8))``.
        shape: ``(rows, ...)``, the shape of the signs.

    Returns:
        int8 of -1 and +1 in ``shape``.

    Example:
        >>> unpack_signs(np.array([[25, 1]], dtype=np.uint8), (1, 3, 3))[0].tolist()
        [[1, -1, -1], [1, 1, -1], [-1, -1, 1]]
    """
    terms = int(np.prod(shape[1:]))
    bits = np.unpackbits(packed, axis=1, count=terms, bitorder="little")
    return (bits.astype(np.int8) * 2 - 1).reshape(shape)
