"""What operations share: their base class, 8-bit types, checks of attributes, and windows that slide over images.

An operation is defined in one place, its class:

    attributes           dataclass fields, checked when the operation is made
    kind, number         its name in the file and its number in the C interface (csrc/signwise.h)
    output_shape         from the shapes of its inputs
    output_type          from the types of its inputs: float32, or int32 for token numbers
    tensors              the tensors it reads, with their types and shapes
    work, padded_size    what it costs, for the limits in :mod:`signwise.program.checks`
    evaluate             its meaning, in numpy
    native_fields        its attributes under the names of the C structure
    moves_numbers, ...   what quantization may do with it

Shapes leave the batch out: ``(channels, height, width)`` for images, ``(tokens, features)`` for sequences,
``(features,)`` for vectors. A value has at most six dimensions.

Values are float32 or, where an operation has an ``out``, 8-bit integers q with a scale s that represent s * q:

    q = clamp(round_half_even(y / s))

Reading such a value gives s * q; a layer with binary weights may add the integers themselves.
"""

from __future__ import annotations

import math
import reprlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from signwise.errors import FormatError

Shape: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[int, int]  # height, width
Padding: TypeAlias = tuple[int, int, int, int]  # top, left, bottom, right
Array: TypeAlias = npt.NDArray[np.floating[Any]]
Tensors: TypeAlias = Mapping[str, npt.NDArray[Any]]
NativeField: TypeAlias = Union[int, tuple[int, ...], tuple[float, ...], npt.NDArray[Any], None]
ValueType: TypeAlias = Literal["float32", "int32"]

LARGEST_SIZE = 2**28  # channels, features: far beyond any network, small enough that products stay below 2**63
LARGEST_RANK = 6  # dimensions of a value, batch aside
LARGEST_WINDOW = 1024  # kernel, stride, dilation, padding: bounds what a small file may make a reader allocate

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint6": (0, 63)}  # smallest and largest integer of each type
TYPE_NUMBERS = {"uint8": 1, "int8": 2, "uint6": 3}  # in the C interface


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


def check_sizes(name: str, values: object, low: int = 1, ranks: tuple[int, int] = (0, LARGEST_RANK)) -> None:
    """A list of sizes: one per dimension of a value."""
    listed = isinstance(values, tuple) and ranks[0] <= len(values) <= ranks[1]
    if not listed or not all(type(value) is int and low <= value <= LARGEST_SIZE for value in values):  # type: ignore[attr-defined]
        count = f"{ranks[0]} to {ranks[1]} integers from {low} to {LARGEST_SIZE}"
        raise FormatError(f"{name} must be {count}, got {reprlib.repr(values)}")


def check_axes(name: str, values: object) -> None:
    """A list of different dimensions, in rising order: one spelling per meaning."""
    check_sizes(name, values, low=0, ranks=(1, LARGEST_RANK))
    assert isinstance(values, tuple)
    if list(values) != sorted(set(values)):
        raise FormatError(f"{name} must rise, got {list(values)}")


def check_within(name: str, axes: Sequence[int], shape: Shape) -> None:
    """Every axis is a dimension of the shape."""
    if max(axes) >= len(shape):
        raise FormatError(f"{name} {max(axes)} is beyond the shape {list(shape)} of its input")


def check_number(name: str, value: object) -> None:
    if type(value) is not float or not math.isfinite(value) or not is_float32(value):
        raise FormatError(f"{name} must be a finite number, exactly a float32, got {reprlib.repr(value)}")


def is_float32(value: float) -> bool:
    """Whether float32 holds the number exactly, so that every reader computes with the same one."""
    return abs(value) <= LARGEST_FLOAT32 and float(struct.unpack("<f", struct.pack("<f", value))[0]) == value


def check_scale(name: str, value: object) -> None:
    # Within these bounds the scale, its inverse and 255 times either are all normal float32 numbers.
    if type(value) is not float or not 1e-30 <= value <= 1e30:
        raise FormatError(f"{name} must be a number from 1e-30 to 1e30, got {reprlib.repr(value)}")
    if not is_float32(value):
        raise FormatError(f"{name} must be exactly a float32, got {value!r}")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise FormatError(f"{name} must be one of {', '.join(choices)}, got {reprlib.repr(value)}")


def check_flag(name: str, value: object) -> None:
    if type(value) is not bool:
        raise FormatError(f"{name} must be true or false, got {reprlib.repr(value)}")


def check_tensor_name(name: str, value: object, *, optional: bool = False) -> None:
    if optional and value is None:
        return
    # People see names on terminals: nothing in them may move the cursor.
    if not isinstance(value, str) or not 0 < len(value) <= 255 or not value.isprintable():
        raise FormatError(f"{name} must be the name of a tensor, got {reprlib.repr(value)}")


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """An 8-bit type: s * q with integers q from 0 to 255, from -128 to 127, or from 0 to 63.

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
        check_scale("out.scale", self.scale)

    @property
    def limits(self) -> tuple[int, int]:
        return LIMITS[self.type]

    @property
    def number(self) -> int:
        """The number of the type in the C interface."""
        return TYPE_NUMBERS[self.type]

    def to_integers(self, numbers: Array) -> npt.NDArray[Any]:
        """q for each number."""
        # rint rounds halves to even, and the clamp precedes the cast: casting a number out of range is undefined.
        clamped: Array = np.clip(np.rint(numbers / self.scale), *self.limits)
        return clamped.astype(np.int8 if self.type == "int8" else np.uint8)


class TensorSpec(NamedTuple):
    """A tensor that an operation reads: the attribute that names it, the name, and what the tensor must be."""

    attribute: str
    name: str
    dtype: type[np.generic]
    shape: Shape


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One step of a program.

    Args:
        inputs: the values it reads. The program's inputs come first, then the result of each operation, in order.
        out: the 8-bit type of its result, or ``None`` for float32.
    """

    kind: ClassVar[str]
    number: ClassVar[int]
    arity: ClassVar[tuple[int, int]] = (1, 1)
    since: ClassVar[int] = 2
    """The version of the file that this kind came with."""
    added_attributes: ClassVar[tuple[str, ...]] = ()
    """Attributes that came with version 2, on a kind that is older."""
    number_attributes: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold real numbers, which JSON may write without a point."""
    tensor_attributes: ClassVar[tuple[str, ...]] = ()
    moves_numbers: ClassVar[bool] = False
    """Whether the result only picks, moves or joins numbers of the inputs (and zeros): exact on integers, too."""

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

    @classmethod
    def attributes(cls, version: int = 2) -> list[str]:
        """The names of the attributes that this kind has beside ``inputs`` and ``out`` in a file of this version."""
        absent = {"inputs", "out", *(cls.added_attributes if version == 1 else ())}
        return [attribute.name for attribute in fields(cls) if attribute.name not in absent]

    def version(self, inputs: Sequence[Shape]) -> int:
        """The oldest version of the file that can hold the operation, for inputs of these shapes."""
        defaults = {attribute.name: attribute.default for attribute in fields(self)}
        is_new = any(getattr(self, name) != defaults[name] for name in self.added_attributes)
        return 2 if is_new else self.since

    @property
    def tensor_names(self) -> dict[str, str]:
        """The names of the tensors it reads, by attribute; absent tensors are left out."""
        named = {attribute: getattr(self, attribute) for attribute in self.tensor_attributes}
        return {attribute: name for attribute, name in named.items() if name is not None}

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of the result; a :class:`FormatError` where the inputs do not fit."""
        return inputs[0]

    def output_type(self, inputs: Sequence[ValueType]) -> ValueType:
        """The type of the result; a :class:`FormatError` where the operation cannot read integers such as tokens."""
        if "int32" in inputs:
            raise FormatError("reads a value of whole numbers (int32), which only embedding and moves may read")
        return "float32"

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        """The tensors that the operation needs for inputs of these shapes."""
        yield from ()

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Additions or multiplications per example."""
        return math.prod(inputs[0])

    def padded_size(self, inputs: Sequence[Shape]) -> int:
        """Numbers in the padded copy of the input, 0 where there is none."""
        return 0

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        """The result in numpy, in the precision of the inputs: ``(batch, *shape)`` to ``(batch, *output_shape)``."""
        raise NotImplementedError(f"{type(self).__name__} has no evaluate")

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        """The attributes by their names in ``signwise_operation``; tensors as C-contiguous arrays."""
        return {}

    @property
    def integer_inputs(self) -> tuple[int, ...]:
        """The inputs that run faster as integers."""
        return ()

    @property
    def gains_from_six_bits(self) -> bool:
        """Whether six-bit inputs run faster than 8-bit ones."""
        return False

    def exact_result(self, read: Quantized) -> Quantized | None:
        """The integers that hold the result without loss where all inputs have the type ``read``, or ``None``."""
        return read if self.moves_numbers else None


class MovesIntegers(Operation):
    """An operation that moves numbers of either type, tokens as well as activations."""

    def output_type(self, inputs: Sequence[ValueType]) -> ValueType:
        if inputs[0] == "int32" and self.out is not None:
            raise FormatError("out must be null for a value of whole numbers (int32)")
        return inputs[0]


def broadcast_shape(first: Shape, second: Shape) -> Shape:
    """numpy's rule: aligned at the last dimension, dimensions of one are repeated.

    Example:
        >>> broadcast_shape((8, 1, 1), (8, 5, 6))
        (8, 5, 6)
    """
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    shape = []
    for one, other in pairs:
        if one != other and 1 not in (one, other):
            raise FormatError(f"shapes {list(first)} and {list(second)} do not broadcast")
        shape.append(max(one, other))
    return tuple(shape)


def aligned(value: Array, rank: int) -> Array:
    """(batch, ...) with dimensions of one after the batch, so that numpy broadcasts examples of different ranks."""
    return value.reshape(value.shape[0], *[1] * (rank + 1 - value.ndim), *value.shape[1:])


def need_image(shape: Shape) -> tuple[int, int, int]:
    """Channels, height and width; a :class:`FormatError` for any other shape."""
    if len(shape) != 3:
        raise FormatError(f"needs an image, but its input has shape {list(shape)}")
    channels, height, width = shape
    return channels, height, width


def need_channels(shape: Shape) -> Shape:
    """The shape itself; a :class:`FormatError` for single numbers, which have no channels."""
    if not shape:
        raise FormatError("needs channels, but its input is one number per example")
    return shape


def per_channel(numbers: npt.NDArray[Any], like: Array) -> Array:
    """(channels,) -> (1, channels, 1, ...): dimension 1 of a batch."""
    return numbers.astype(like.dtype).reshape(1, -1, *[1] * (like.ndim - 2))


def relu_if(wanted: bool, values: Array) -> Array:
    return np.maximum(values, 0) if wanted else values


# Windows


def positions(size: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """How many windows fit along a dimension of ``size`` pixels, padding included.

        floor((size - dilation * (kernel - 1) - 1) / stride) + 1

    Example:
        >>> positions(32, kernel=3, stride=2)
        15
    """
    return (size - dilation * (kernel - 1) - 1) // stride + 1


def check_window(kernel: Pair, stride: Pair, padding: Padding, dilation: Pair = (1, 1)) -> None:
    check_integers("kernel", kernel, 2, 1, LARGEST_WINDOW)
    check_integers("stride", stride, 2, 1, LARGEST_WINDOW)
    check_integers("padding", padding, 4, 0, LARGEST_WINDOW)
    check_integers("dilation", dilation, 2, 1, LARGEST_WINDOW)


def window_shape(shape: Shape, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair = (1, 1)) -> Pair:
    """Height and width of the result for an input of ``(channels, height, width)``."""
    _, height, width = need_image(shape)
    top, left, bottom, right = padding
    sizes = []
    for axis, size in enumerate((height + top + bottom, width + left + right)):
        extent = dilation[axis] * (kernel[axis] - 1) + 1
        if extent > size:
            raise FormatError(f"a window of {extent} does not fit the padded {('height', 'width')[axis]} of {size}")
        sizes.append(positions(size, kernel[axis], stride[axis], dilation[axis]))
    return sizes[0], sizes[1]


def padded_size(inputs: Sequence[Shape], padding: Padding) -> int:
    """Numbers in the padded image, 0 without padding."""
    channels, height, width = inputs[0]
    top, left, bottom, right = padding
    return channels * (height + top + bottom) * (width + left + right) if any(padding) else 0


def pad(images: Array, padding: Padding, fill: float = 0) -> Array:
    top, left, bottom, right = padding
    return np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
