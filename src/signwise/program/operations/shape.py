"""Operations that move numbers without changing them: other shapes and orders, parts, joins, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from signwise.errors import FormatError
from signwise.program.operations.base import (
    LARGEST_RANK,
    LARGEST_SIZE,
    Array,
    MovesIntegers,
    NativeField,
    Operation,
    Quantized,
    Shape,
    Tensors,
    aligned,
    broadcast_shape,
    check_choice,
    check_integer,
    check_number,
    check_sizes,
    check_within,
    need_channels,
)


@dataclass(frozen=True, kw_only=True)
class PadChannels(Operation):
    """Channels of zeros before and after the input's own: a shortcut without parameters."""

    kind: ClassVar[str] = "pad_channels"
    since: ClassVar[int] = 1
    number: ClassVar[int] = 8
    moves_numbers: ClassVar[bool] = True

    before: int
    after: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("before", self.before, 0, LARGEST_SIZE)
        check_integer("after", self.after, 0, LARGEST_SIZE)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, *rest = need_channels(inputs[0])
        return (self.before + channels + self.after, *rest)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return np.pad(inputs[0], [(0, 0), (self.before, self.after), *[(0, 0)] * (inputs[0].ndim - 2)])

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"before": self.before, "after": self.after}


@dataclass(frozen=True, kw_only=True)
class Flatten(Operation):
    """``(channels, height, width)`` to ``(channels * height * width,)``."""

    kind: ClassVar[str] = "flatten"
    since: ClassVar[int] = 1
    number: ClassVar[int] = 9
    moves_numbers: ClassVar[bool] = True

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return (math.prod(inputs[0]),)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return inputs[0].reshape(len(inputs[0]), math.prod(inputs[0].shape[1:]))


@dataclass(frozen=True, kw_only=True)
class Concat(Operation):
    """Values joined along one dimension, by default the first: the channels."""

    kind: ClassVar[str] = "concat"
    since: ClassVar[int] = 1
    added_attributes: ClassVar[tuple[str, ...]] = ("axis",)
    number: ClassVar[int] = 10
    arity: ClassVar[tuple[int, int]] = (2, 64)
    moves_numbers: ClassVar[bool] = True

    axis: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("axis", self.axis, 0, LARGEST_RANK - 1)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        axis = self.axis
        check_within("axis", (axis,), inputs[0])
        around = {(len(shape), shape[:axis], shape[axis + 1 :]) for shape in inputs}
        if len(around) != 1:
            where = "the channels" if axis == 0 else f"dimension {axis}"
            raise FormatError(f"joins shapes {[list(shape) for shape in inputs]}, which differ beyond {where}")
        return (*inputs[0][:axis], sum(shape[axis] for shape in inputs), *inputs[0][axis + 1 :])

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return math.prod(output)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return np.concatenate(inputs, axis=self.axis + 1)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"axes": (self.axis,)} if self.axis else {}


@dataclass(frozen=True, kw_only=True)
class Transpose(MovesIntegers):
    """The dimensions in another order.

    Args:
        axes: dimension i of the result is dimension ``axes[i]`` of the input.
    """

    kind: ClassVar[str] = "transpose"
    number: ClassVar[int] = 18
    moves_numbers: ClassVar[bool] = True

    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("axes", self.axes, low=0)
        if sorted(self.axes) != list(range(len(self.axes))):
            raise FormatError(f"axes must name every dimension once, got {list(self.axes)}")

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        if len(self.axes) != len(inputs[0]):
            raise FormatError(f"{len(self.axes)} axes for an input of shape {list(inputs[0])}")
        return tuple(inputs[0][axis] for axis in self.axes)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        moved: Array = inputs[0].transpose(0, *(axis + 1 for axis in self.axes))
        return moved

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"axes": self.axes}


@dataclass(frozen=True, kw_only=True)
class Reshape(MovesIntegers):
    """The same numbers in the same order, in another shape."""

    kind: ClassVar[str] = "reshape"
    number: ClassVar[int] = 19
    moves_numbers: ClassVar[bool] = True

    shape: Shape

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("shape", self.shape)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        if math.prod(self.shape) != math.prod(inputs[0]):
            raise FormatError(f"shape {list(self.shape)} does not hold the numbers of {list(inputs[0])}")
        return self.shape

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return inputs[0].reshape(len(inputs[0]), *self.shape)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"sizes": self.shape}


@dataclass(frozen=True, kw_only=True)
class Slice(MovesIntegers):
    """A part of the input: from ``starts`` up to ``stops`` (exclusive) in steps, along every dimension."""

    kind: ClassVar[str] = "slice"
    number: ClassVar[int] = 20
    moves_numbers: ClassVar[bool] = True

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    steps: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("starts", self.starts, low=0, ranks=(1, LARGEST_RANK))
        check_sizes("stops", self.stops, ranks=(1, LARGEST_RANK))
        check_sizes("steps", self.steps, ranks=(1, LARGEST_RANK))
        if not len(self.starts) == len(self.stops) == len(self.steps):
            raise FormatError("starts, stops and steps must have one number per dimension each")
        if any(start >= stop for start, stop in zip(self.starts, self.stops, strict=True)):
            raise FormatError(f"starts {list(self.starts)} must lie below stops {list(self.stops)}")

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        if len(self.stops) != len(inputs[0]) or any(
            stop > size for stop, size in zip(self.stops, inputs[0], strict=True)
        ):
            raise FormatError(f"stops {list(self.stops)} do not fit an input of shape {list(inputs[0])}")
        return tuple(len(range(*along)) for along in zip(self.starts, self.stops, self.steps, strict=True))

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        parts = (slice(*along) for along in zip(self.starts, self.stops, self.steps, strict=True))
        where = (slice(None), *parts)
        part: Array = inputs[0][where]
        return part

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"sizes": (*self.starts, *self.stops, *self.steps)}


PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}  # numpy's names


@dataclass(frozen=True, kw_only=True)
class Pad(Operation):
    """More numbers before and after the input's own, along any dimensions.

    Args:
        before, after: how many, per dimension.
        mode: ``"constant"`` repeats ``value``; ``"reflect"`` mirrors at the outermost numbers, ``"replicate"`` repeats
            them, ``"circular"`` continues at the other end.
        value: for ``"constant"``.
    """

    kind: ClassVar[str] = "pad"
    number: ClassVar[int] = 21
    moves_numbers: ClassVar[bool] = True
    number_attributes: ClassVar[tuple[str, ...]] = ("value",)

    before: tuple[int, ...]
    after: tuple[int, ...]
    mode: str = "constant"
    value: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("before", self.before, low=0, ranks=(1, LARGEST_RANK))
        check_sizes("after", self.after, low=0, ranks=(1, LARGEST_RANK))
        check_choice("mode", self.mode, tuple(PAD_MODES))
        check_number("value", self.value)
        if self.mode != "constant" and self.value != 0:
            raise FormatError(f"value belongs to mode constant, got {self.value} with {self.mode}")

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        shape = inputs[0]
        if not len(self.before) == len(self.after) == len(shape):
            raise FormatError(f"before and after must have one number for each dimension of {list(shape)}")
        # A mirror shows every number but the outermost; a circle shows each once more at most.
        reach = {"reflect": -1, "circular": 0}.get(self.mode)
        for size, before, after in zip(shape, self.before, self.after, strict=True):
            if reach is not None and max(before, after) > size + reach:
                raise FormatError(f"{self.mode} padding by {max(before, after)} reaches beyond a dimension of {size}")
        return tuple(map(sum, zip(self.before, shape, self.after, strict=True)))

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return math.prod(output)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        sides = [(0, 0), *zip(self.before, self.after, strict=True)]
        if self.mode == "constant":
            return np.pad(inputs[0], sides, constant_values=self.value)
        if not len(inputs[0]):  # numpy mirrors no empty array
            return np.empty((0, *self.output_shape([inputs[0].shape[1:]])), inputs[0].dtype)
        padded: Array = np.pad(inputs[0], sides, mode=PAD_MODES[self.mode])  # type: ignore[call-overload]
        return padded

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        mode = list(PAD_MODES).index(self.mode)
        return {"sizes": (*self.before, *self.after), "function": mode, "numbers": (self.value,)}

    def exact_result(self, read: Quantized) -> Quantized | None:
        return read if self.value == 0 else None


@dataclass(frozen=True, kw_only=True)
class Expand(Operation):
    """Dimensions of one repeated, and new ones in front: numpy's broadcast_to."""

    kind: ClassVar[str] = "expand"
    number: ClassVar[int] = 29
    moves_numbers: ClassVar[bool] = True

    shape: Shape

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("shape", self.shape)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        if len(inputs[0]) > len(self.shape) or broadcast_shape(inputs[0], self.shape) != self.shape:
            raise FormatError(f"{list(inputs[0])} does not broadcast to {list(self.shape)}")
        return self.shape

    def work(self, inputs: Sequence[Shape], output: Shape) -> int:
        return math.prod(output)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return np.broadcast_to(aligned(inputs[0], len(self.shape)), (len(inputs[0]), *self.shape))

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"sizes": self.shape}
