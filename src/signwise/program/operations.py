"""The operations of a program, one small dataclass each.

An operation reads earlier values and makes one new value. Every example of a batch goes through it alone, so shapes
leave the batch out: ``(channels, height, width)`` for images, ``(features,)`` for vectors. Each class checks its own
attributes when it is made; what depends on the other operations (shapes, tensors) is checked in
:mod:`signwise.program.checks`.

Values are float32, or, where an operation has an ``out``, 8-bit integers q with a scale s that stand for s * q:

    q = clamp(round_half_even(y / s))

Reading such a value gives s * q back; a convolution or dense layer of binary weights may add the integers themselves.
"""

from __future__ import annotations

import reprlib
import struct
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from signwise.errors import FormatError

LARGEST_SIZE = 2**28  # channels, features: far beyond any network, small enough that products stay below 2**63
LARGEST_WINDOW = 1024  # kernel, stride, dilation, padding: bounds what a small file may make a reader allocate

LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint6": (0, 63)}  # of integers

Padding: TypeAlias = tuple[int, int, int, int]  # top, left, bottom, right


def check_integer(name: str, value: object, low: int, high: int) -> None:
    # bool is an int in Python, but true is not 1 in the file.
    if type(value) is not int or not low <= value <= high:
        raise FormatError(f"{name} must be an integer from {low} to {high}, got {reprlib.repr(value)}")


def check_integers(name: str, values: tuple[object, ...], count: int, low: int, high: int) -> None:
    counted = isinstance(values, tuple) and len(values) == count
    if not counted or not all(
        isinstance(value, int) and type(value) is not bool and low <= value <= high for value in values
    ):
        raise FormatError(f"{name} must be {count} integers from {low} to {high}, got {reprlib.repr(values)}")


def check_flag(name: str, value: object) -> None:
    if type(value) is not bool:
        raise FormatError(f"{name} must be true or false, got {reprlib.repr(value)}")


def check_tensor_name(name: str, value: object, *, optional: bool = False) -> None:
    if optional and value is None:
        return
    # Names are shown to people: nothing in them may move the cursor of a terminal.
    if not isinstance(value, str) or not 0 < len(value) <= 255 or not value.isprintable():
        raise FormatError(f"{name} must be the name of a tensor, got {reprlib.repr(value)}")


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """How a value is kept in a byte: s * q with integers q from 0 to 255, from -128 to 127, or from 0 to 63.

    Args:
        type: ``"uint8"``, ``"int8"`` or ``"uint6"``.
        scale: s, positive and exactly a float32, so that every reader multiplies by the same number.

    Example:
        >>> Quantized(type="uint8", scale=0.5).limits
        (0, 255)
    """

    type: Literal["uint8", "int8", "uint6"]
    scale: float

    def __post_init__(self) -> None:
        if not isinstance(self.type, str) or self.type not in LIMITS:
            raise FormatError(f"out.type must be one of {', '.join(LIMITS)}, got {reprlib.repr(self.type)}")
        # Within these bounds the scale, its inverse and 255 times either are all normal float32 numbers.
        if type(self.scale) is not float or not 1e-30 <= self.scale <= 1e30:
            raise FormatError(f"out.scale must be a number from 1e-30 to 1e30, got {reprlib.repr(self.scale)}")
        if float(struct.unpack("<f", struct.pack("<f", self.scale))[0]) != self.scale:
            raise FormatError(f"out.scale must be exactly a float32, got {self.scale!r}")

    @property
    def limits(self) -> tuple[int, int]:
        return LIMITS[self.type]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What every operation has: the values that it reads and how its result is kept (``None``: float32).

    Value 0 is the program's input, value i + 1 the result of operation i.
    """

    kind: ClassVar[str]
    arity: ClassVar[tuple[int, int]] = (1, 1)

    inputs: tuple[int, ...]
    out: Quantized | None = None

    def __post_init__(self) -> None:
        low, high = self.arity
        if not isinstance(self.inputs, tuple) or not low <= len(self.inputs) <= high:
            expected = str(low) if low == high else f"{low} to {high}"
            raise FormatError(f"in must list {expected} values, got {reprlib.repr(self.inputs)}")
        for value in self.inputs:
            check_integer("in", value, 0, LARGEST_SIZE)
        if self.out is not None and not isinstance(self.out, Quantized):
            raise FormatError(f"out must be null or a type with a scale, got {reprlib.repr(self.out)}")


@dataclass(frozen=True, kw_only=True)
class Weighted(Operation):
    """A layer with weights and its epilogue, y = relu(scale * sum + bias + residual), scale and bias per channel.

    Args:
        inputs: the layer's input, and optionally the residual, of the result's shape.
        weight: name of the tensor: bits in rows of whole bytes (uint8), or float32 in PyTorch's layout.
        bits: 1 for binary weights, 32 for float weights.
        scale, bias: names of float32 tensors with one number a channel; ``None`` means 1 and 0.
        relu: whether negative results become 0.
    """

    arity: ClassVar[tuple[int, int]] = (1, 2)

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


@dataclass(frozen=True, kw_only=True)
class Conv(Weighted):
    """A two-dimensional convolution (cross-correlation, as in PyTorch) of a zero-padded image.

    Args:
        out_channels: number of filters.
        kernel, stride, dilation: height and width.
        padding: zeros added at the top, left, bottom and right.
        groups: input and output channels are cut into this many independent parts.
    """

    kind: ClassVar[str] = "conv"

    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("out_channels", self.out_channels, 1, LARGEST_SIZE)
        check_integers("kernel", self.kernel, 2, 1, LARGEST_WINDOW)
        check_integers("stride", self.stride, 2, 1, LARGEST_WINDOW)
        check_integers("padding", self.padding, 4, 0, LARGEST_WINDOW)
        check_integers("dilation", self.dilation, 2, 1, LARGEST_WINDOW)
        check_integer("groups", self.groups, 1, LARGEST_SIZE)
        if self.out_channels % self.groups:
            raise FormatError(f"out_channels must be a multiple of groups, got {self.out_channels} and {self.groups}")


@dataclass(frozen=True, kw_only=True)
class Dense(Weighted):
    """A fully connected layer on a vector."""

    kind: ClassVar[str] = "dense"

    out_features: int
    in_features: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("out_features", self.out_features, 1, LARGEST_SIZE)
        check_integer("in_features", self.in_features, 1, LARGEST_SIZE)


@dataclass(frozen=True, kw_only=True)
class Affine(Operation):
    """y = relu(scale * x + bias), scale and bias per channel: a batch norm that follows no layer with weights."""

    kind: ClassVar[str] = "affine"

    scale: str
    bias: str
    relu: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tensor_name("scale", self.scale)
        check_tensor_name("bias", self.bias)
        check_flag("relu", self.relu)


@dataclass(frozen=True, kw_only=True)
class Relu(Operation):
    """y = max(x, 0)."""

    kind: ClassVar[str] = "relu"


@dataclass(frozen=True, kw_only=True)
class Add(Operation):
    """y = relu(a + b), of two values of one shape."""

    kind: ClassVar[str] = "add"
    arity: ClassVar[tuple[int, int]] = (2, 2)

    relu: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("relu", self.relu)


@dataclass(frozen=True, kw_only=True)
class Pool(Operation):
    """A window that slides over each channel; windows that would stick out of the padded image are left out.

    Args:
        kernel, stride: height and width.
        padding: rows and columns added at the top, left, bottom and right; smaller than the kernel, so that every
            window sees at least one pixel.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding = (0, 0, 0, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers("kernel", self.kernel, 2, 1, LARGEST_WINDOW)
        check_integers("stride", self.stride, 2, 1, LARGEST_WINDOW)
        check_integers("padding", self.padding, 4, 0, LARGEST_WINDOW)
        (kernel_height, kernel_width), (top, left, bottom, right) = self.kernel, self.padding
        if max(top, bottom) >= kernel_height or max(left, right) >= kernel_width:
            raise FormatError(f"padding must be smaller than kernel, got {self.padding} and {self.kernel}")


@dataclass(frozen=True, kw_only=True)
class MaxPool(Pool):
    """The largest pixel of each window; the padding never wins."""

    kind: ClassVar[str] = "maxpool"


@dataclass(frozen=True, kw_only=True)
class AvgPool(Pool):
    """The mean of each window; the padding counts as zeros, or not at all."""

    kind: ClassVar[str] = "avgpool"

    count_include_pad: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("count_include_pad", self.count_include_pad)


@dataclass(frozen=True, kw_only=True)
class GlobalPool(Operation):
    """The mean of each channel: ``(channels, height, width)`` to ``(channels,)``."""

    kind: ClassVar[str] = "globalpool"


@dataclass(frozen=True, kw_only=True)
class PadChannels(Operation):
    """Channels of zeros before and after those of the input: a shortcut free of parameters."""

    kind: ClassVar[str] = "pad_channels"

    before: int
    after: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("before", self.before, 0, LARGEST_SIZE)
        check_integer("after", self.after, 0, LARGEST_SIZE)


@dataclass(frozen=True, kw_only=True)
class Flatten(Operation):
    """``(channels, height, width)`` to ``(channels * height * width,)``."""

    kind: ClassVar[str] = "flatten"


@dataclass(frozen=True, kw_only=True)
class Concat(Operation):
    """Values one after the other along their first dimension, the channels."""

    kind: ClassVar[str] = "concat"
    arity: ClassVar[tuple[int, int]] = (2, 64)


@dataclass(frozen=True, kw_only=True)
class Softmax(Operation):
    """exp(x) / sum(exp(x)) of a vector."""

    kind: ClassVar[str] = "softmax"


KINDS: dict[str, type[Operation]] = {
    operation.kind: operation
    for operation in (
        Conv, Dense, Affine, Relu, Add, MaxPool, AvgPool, GlobalPool, PadChannels, Flatten, Concat, Softmax,
    )
}  # fmt: skip
