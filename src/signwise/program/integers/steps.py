"""The steps of an integer program: attributes, limits, the shape and the meaning of each.

A value is an image ``(channels, height, width)``; vectors are images of one pixel. Its type is one of a quantized
program: the integer q of that type is stored as the byte ``u = q + zero``, so that no byte is negative.

The limits are those of the C kernels, which have 8 and 16 bits for sizes and 32 bits for sums: whatever passes the
checks here runs there without overflow.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from signwise.errors import FormatError
from signwise.program.arrays import read_only
from signwise.program.integers.windows import Image, Integers, Window, blocks, largest
from signwise.program.operations import Padding, Pair, Quantized, unpack_signs
from signwise.program.operations.base import check_flag, check_integer, check_integers

LARGEST_SHIFT = 30
LARGEST_SIDE = 2**16 - 1  # channels, height, width, and the kernel of a pool
LARGEST_WINDOW = 255
LARGEST_MULTIPLIER = 2**15 - 1
LARGEST_OFFSET = 2**31 - 1
LARGEST_INPUTS = 64


def zero_of(kind: Quantized) -> int:
    """The byte that stands for the number 0."""
    return -kind.limits[0]


def high_of(kind: Quantized) -> int:
    """The largest byte; the smallest is 0."""
    return kind.limits[1] - kind.limits[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One step: reads the values ``inputs`` and makes one more, of the type ``out``."""

    kind: ClassVar[str]
    count: ClassVar[tuple[int, int]] = (1, 1)  # how many values it may read
    arrays: ClassVar[tuple[str, ...]] = ()  # the attributes that are tensors in the file

    inputs: tuple[int, ...]
    out: Quantized | None

    def __post_init__(self) -> None:
        least, most = self.count
        if not isinstance(self.inputs, tuple) or not least <= len(self.inputs) <= most:
            count = f"{least}" if least == most else f"{least} to {most}"
            raise FormatError(f"in must list {count} values, got {reprlib.repr(self.inputs)}")
        for name in self.arrays:
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def output_shape(self, read: Sequence[Image]) -> Image:
        """The shape of the result; what does not fit is refused."""
        raise NotImplementedError(f"{type(self).__name__} has no output_shape")

    def work(self, read: Sequence[Image], made: Image) -> int:
        """Multiplications or additions per example."""
        return math.prod(made)

    def padded_size(self, read: Sequence[Image]) -> int:
        """The numbers of a padded copy of the input, 0 without one."""
        return 0

    def check_numbers(self, read: Sequence[Image], types: Sequence[Quantized]) -> None:
        """Refuse numbers with which the arithmetic of the C code could overflow.

        Args:
            read: the shapes of the values that the step reads.
            types: their types.
        """

    def run(self, read: Sequence[Integers], types: Sequence[Quantized]) -> Integers:
        """The result for ``(batch, height, width, channels)``, before it is clamped to the type ``out``."""
        raise NotImplementedError(f"{type(self).__name__} has no run")


def scaled(sums: Integers, multipliers: Any, offsets: Any, shift: int) -> Integers:
    """``(m * sum + b) >> k``; the shift rounds towards minus infinity.

    Example:
        >>> scaled(np.array([-3, -2, -1, 0, 1, 2, 3]), 1, 1, 1).tolist()
        [-1, -1, 0, 0, 1, 1, 2]
    """
    made: Integers = (sums.astype(np.int64) * multipliers + offsets) >> shift
    return made


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer(Step):
    """A convolution or dense layer, followed by the largest of ``pool`` pixels; a second input is a residual.

        u' = max over the pool of clamp((m * sum + b + residual_multiplier * residual) >> k)

    Args:
        weight: uint8 bits ``(filters, ceil(n / 8))`` in the order of :func:`~signwise.program.operations.pack_signs`,
            or int8 ``(filters, n)``; the n weights of a filter run over kernel rows, kernel columns, channels of a
            group.
        multipliers: int16, m of every filter.
        offsets: int32, b of every filter.
        shift: k.
        flatten: a dense layer: the input is one pixel, whose channels are all its bytes.
        relu: results below the byte of 0 become that byte.
        pool: height and width of the windows, which do not overlap; (1, 1) for none.
        residual_multiplier: of the second input, ``None`` without one.
    """

    kind: ClassVar[str] = "layer"
    count: ClassVar[tuple[int, int]] = (1, 2)
    arrays: ClassVar[tuple[str, ...]] = ("weight", "multipliers", "offsets")

    weight: npt.NDArray[Any]
    multipliers: npt.NDArray[np.int16]
    offsets: npt.NDArray[np.int32]
    shift: int
    flatten: bool
    relu: bool
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    pool: Pair = (1, 1)
    residual_multiplier: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("shift", self.shift, 0, LARGEST_SHIFT)
        check_flag("flatten", self.flatten)
        check_flag("relu", self.relu)
        for name in ("kernel", "stride", "dilation", "pool"):
            check_integers(name, getattr(self, name), 2, 1, LARGEST_WINDOW)
        check_integers("padding", self.padding, 4, 0, LARGEST_WINDOW)
        check_integer("groups", self.groups, 1, LARGEST_SIDE)
        if self.weight.dtype not in (np.uint8, np.int8) or self.weight.ndim != 2:
            found = f"{self.weight.dtype} {list(self.weight.shape)}"
            raise FormatError(f"weight must be uint8 bits or int8 numbers in rows, got {found}")
        check_integer("the number of filters", len(self.weight), 1, LARGEST_SIDE)
        check_fixed(self.multipliers, self.offsets, len(self.weight))
        has_residual = len(self.inputs) == 2
        if has_residual != (self.residual_multiplier is not None):
            raise FormatError("residual_multiplier belongs to a layer with two inputs, and to no other")
        if has_residual:
            check_integer("residual_multiplier", self.residual_multiplier, -LARGEST_MULTIPLIER, LARGEST_MULTIPLIER)
        window = (self.kernel, self.stride, self.padding, self.dilation, self.groups)
        if self.flatten and window != ((1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1):
            raise FormatError("a layer that flattens its input sees one pixel: no kernel, stride, padding or groups")
        if (has_residual or self.out is None or self.flatten) and self.pool != (1, 1):
            raise FormatError(f"pool is for convolutions that make bytes and have no residual, got {list(self.pool)}")
        if self.out is None and (has_residual or self.relu):
            raise FormatError("the outputs are sums without a ReLU or a residual")

    @property
    def bits(self) -> int:
        """Per weight."""
        return 1 if self.weight.dtype == np.uint8 else 8

    @property
    def filters(self) -> int:
        return len(self.weight)

    @cached_property
    def _window(self) -> Window:
        return Window(kernel=self.kernel, stride=self.stride, padding=self.padding, dilation=self.dilation)

    def image(self, read: Image) -> Image:
        """The shape of the input as the layer sees it."""
        return (math.prod(read), 1, 1) if self.flatten else read

    def weight_shape(self, read: Image) -> tuple[int, int, int, int]:
        """``(filters, kernel rows, kernel columns, channels of a group)``."""
        return self.filters, *self.kernel, self.image(read)[0] // self.groups

    def whole_weight(self, read: Image) -> npt.NDArray[np.int8]:
        """The weights as integers, in :meth:`weight_shape`."""
        shape = self.weight_shape(read)
        return unpack_signs(self.weight, shape) if self.bits == 1 else self.weight.reshape(shape)

    def output_shape(self, read: Sequence[Image]) -> Image:
        image = self.image(read[0])
        channels = image[0]
        check_integer("channels of the input", channels, 1, LARGEST_SIDE)
        if channels % self.groups or self.filters % self.groups:
            raise FormatError(f"groups must divide {channels} channels and {self.filters} filters, got {self.groups}")
        terms = math.prod(self.weight_shape(read[0])[1:])
        row = -(-terms // 8) if self.bits == 1 else terms
        if self.weight.shape[1] != row:
            unit = "bits" if self.bits == 1 else "numbers"
            found = list(self.weight.shape)
            raise FormatError(f"weight must have rows of {row} bytes for {terms} {unit}, got {found}")
        if self.bits == 1 and terms % 8 and (self.weight[:, -1] >> (terms % 8)).any():
            raise FormatError("weight has pad bits that are not zero")
        rows, columns = self._window.output_size(image)
        made = (self.filters, rows // self.pool[0], columns // self.pool[1])
        if min(made) < 1:
            raise FormatError(f"pool {list(self.pool)} is larger than the result, {rows}x{columns} pixels")
        if len(read) == 2 and read[1] != made:
            raise FormatError(f"the residual must have shape {list(made)}, got {list(read[1])}")
        return made

    def work(self, read: Sequence[Image], made: Image) -> int:
        terms = math.prod(self.weight_shape(read[0])[1:])
        return terms * math.prod(made) * math.prod(self.pool)

    def padded_size(self, read: Sequence[Image]) -> int:
        return self._window.padded_size(read[0])

    def check_numbers(self, read: Sequence[Image], types: Sequence[Quantized]) -> None:
        # The kernels for one bit add twice the bytes of weight +1 before they subtract all bytes.
        if self.bits == 1:
            most = np.full(self.filters, 255 * math.prod(self.weight_shape(read[0])[1:]))
            least = -most
        else:
            most = 255 * np.maximum(self.weight, 0).sum(axis=1, dtype=np.int64)
            least = 255 * np.minimum(self.weight, 0).sum(axis=1, dtype=np.int64)
        if np.max(most - least) >= 2**31:
            raise FormatError("its sums may exceed 32 bits")
        multipliers = self.multipliers.astype(np.int64)
        ends = np.stack([multipliers * most, multipliers * least]) + self.offsets
        residual = 255 * (self.residual_multiplier or 0)
        high, low = int(ends.max()) + max(residual, 0), int(ends.min()) + min(residual, 0)
        if self.out is None and not -(2**31) <= low >> self.shift <= high >> self.shift < 2**31:
            raise FormatError("its outputs may exceed 32 bits")
        if high >> self.shift >= 2**32:
            raise FormatError("its results may exceed 32 bits before they are clamped")

    def run(self, read: Sequence[Integers], types: Sequence[Quantized]) -> Integers:
        images = read[0].reshape(len(read[0]), 1, 1, -1) if self.flatten else read[0]
        seen = self._window.seen(images, zero_of(types[0]))
        batch, rows, columns = seen.shape[:3]
        weight = self.whole_weight((images.shape[3], *images.shape[1:3]))
        weight = weight.reshape(self.groups, self.filters // self.groups, -1)
        # Exact: every partial sum is a whole number that the type holds.
        reach = 255 * np.abs(weight.astype(np.int16)).sum(axis=2, dtype=np.int64).max()
        exact = np.float32 if reach < 2**24 else np.float64
        matrices = weight.transpose(0, 2, 1).astype(exact)  # (groups, terms, filters of a group)
        sums = np.empty((batch, rows, columns, self.filters), exact)
        for part in blocks(rows, columns, batch * math.prod(seen.shape[3:])):
            block = seen[:, part[0], part[1]]
            pixels = block.shape[:3]
            for group, channels in enumerate(np.split(block, self.groups, axis=-1)):
                first = group * matrices.shape[2]
                made = channels.reshape(math.prod(pixels), -1).astype(exact) @ matrices[group]
                sums[:, part[0], part[1], first : first + matrices.shape[2]] = made.reshape(*pixels, -1)
        total = sums.astype(np.int64) * self.multipliers + self.offsets
        if self.residual_multiplier is not None:
            total += read[1].astype(np.int64) * self.residual_multiplier
        total >>= self.shift
        if self.out is None:
            return total
        if self.relu:
            total = np.maximum(total, zero_of(self.out))
        apart = Window(kernel=self.pool, stride=self.pool, padding=(0, 0, 0, 0))
        return total if self.pool == (1, 1) else largest(apart.seen(total, 0))


def check_fixed(multipliers: npt.NDArray[Any], offsets: npt.NDArray[Any], count: int) -> None:
    """One multiplier of 16 bits and one offset of 32 bits for each of ``count`` channels."""
    for name, numbers, dtype in (("multipliers", multipliers, np.int16), ("offsets", offsets, np.int32)):
        if numbers.dtype != dtype or numbers.shape != (count,):
            found = f"{numbers.dtype} {list(numbers.shape)}"
            raise FormatError(f"{name} must be {np.dtype(dtype)} [{count}], got {found}")
        if (numbers == np.iinfo(dtype).min).any():
            raise FormatError(f"{name} must be above {np.iinfo(dtype).min}, which C cannot negate")


@dataclass(frozen=True, kw_only=True, eq=False)
class Rescale(Step):
    """Each channel multiplied and shifted: a change of scale, a ReLU, an affine map.

    Args:
        multipliers: int16, m of every channel, or of all.
        offsets: int32, b of every channel, or of all.
        shift: k.
        relu: results below the byte of 0 become that byte.
    """

    kind: ClassVar[str] = "rescale"
    arrays: ClassVar[tuple[str, ...]] = ("multipliers", "offsets")

    multipliers: npt.NDArray[np.int16]
    offsets: npt.NDArray[np.int32]
    shift: int
    relu: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("shift", self.shift, 0, LARGEST_SHIFT)
        check_flag("relu", self.relu)

    def output_shape(self, read: Sequence[Image]) -> Image:
        check_fixed(self.multipliers, self.offsets, 1 if self.multipliers.shape == (1,) else read[0][0])
        return read[0]

    def run(self, read: Sequence[Integers], types: Sequence[Quantized]) -> Integers:
        assert self.out is not None
        made = scaled(read[0], self.multipliers, self.offsets, self.shift)
        return np.maximum(made, zero_of(self.out)) if self.relu else made


@dataclass(frozen=True, kw_only=True, eq=False)
class Add(Step):
    """Two values of one shape added, number by number.

    Args:
        multipliers: m of each.
        offset: b.
        shift: k.
        relu: results below the byte of 0 become that byte.
    """

    kind: ClassVar[str] = "add"
    count: ClassVar[tuple[int, int]] = (2, 2)

    multipliers: Pair
    offset: int
    shift: int
    relu: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers("multipliers", self.multipliers, 2, -LARGEST_MULTIPLIER, LARGEST_MULTIPLIER)
        check_integer("offset", self.offset, -LARGEST_OFFSET, LARGEST_OFFSET)
        check_integer("shift", self.shift, 0, LARGEST_SHIFT)
        check_flag("relu", self.relu)

    def output_shape(self, read: Sequence[Image]) -> Image:
        if read[0] != read[1]:
            raise FormatError(f"both values must have one shape, got {list(read[0])} and {list(read[1])}")
        return read[0]

    def run(self, read: Sequence[Integers], types: Sequence[Quantized]) -> Integers:
        assert self.out is not None
        first, second = (image.astype(np.int64) for image in read)
        made: Integers = (first * self.multipliers[0] + second * self.multipliers[1] + self.offset) >> self.shift
        return np.maximum(made, zero_of(self.out)) if self.relu else made


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool(Step):
    """A window that slides over each channel.

    Args:
        kernel, stride: height and width.
        padding: rows and columns added at the top, left, bottom and right; smaller than the kernel.
    """

    kernel: Pair
    stride: Pair
    padding: Padding

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers("kernel", self.kernel, 2, 1, LARGEST_SIDE)
        check_integers("stride", self.stride, 2, 1, LARGEST_WINDOW)
        check_integers("padding", self.padding, 4, 0, LARGEST_WINDOW)
        (height, width), (top, left, bottom, right) = self.kernel, self.padding
        if max(top, bottom) >= height or max(left, right) >= width:
            raise FormatError(f"padding must be smaller than kernel, got {list(self.padding)} and {list(self.kernel)}")

    @cached_property
    def _window(self) -> Window:
        return Window(kernel=self.kernel, stride=self.stride, padding=self.padding)

    def output_shape(self, read: Sequence[Image]) -> Image:
        return (read[0][0], *self._window.output_size(read[0]))

    def work(self, read: Sequence[Image], made: Image) -> int:
        return math.prod(self.kernel) * math.prod(made)

    def padded_size(self, read: Sequence[Image]) -> int:
        return self._window.padded_size(read[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class MaxPool(Pool):
    """The largest byte of each window, of the type that the input has; padding never wins."""

    kind: ClassVar[str] = "maxpool"

    def check_numbers(self, read: Sequence[Image], types: Sequence[Quantized]) -> None:
        if self.out != types[0]:
            raise FormatError(f"the largest bytes have the type of the input, {types[0]}, got {self.out}")

    def run(self, read: Sequence[Integers], types: Sequence[Quantized]) -> Integers:
        return largest(self._window.seen(read[0], 0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean(Pool):
    """The mean of each window, whose count is part of the multiplier; padding counts as zeros.

    Args:
        multiplier: m.
        offset: b.
        shift: k.
    """

    kind: ClassVar[str] = "mean"

    multiplier: int
    offset: int
    shift: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("multiplier", self.multiplier, -LARGEST_MULTIPLIER, LARGEST_MULTIPLIER)
        check_integer("offset", self.offset, -LARGEST_OFFSET, LARGEST_OFFSET)
        check_integer("shift", self.shift, 0, LARGEST_SHIFT)

    def check_numbers(self, read: Sequence[Image], types: Sequence[Quantized]) -> None:
        sums = 255 * math.prod(self.kernel)
        if sums >= 2**31:
            raise FormatError("its sums may exceed 32 bits")
        if (sums * max(self.multiplier, 0) + self.offset) >> self.shift >= 2**32:
            raise FormatError("its results may exceed 32 bits before they are clamped")

    def run(self, read: Sequence[Integers], types: Sequence[Quantized]) -> Integers:
        sums = self._window.seen(read[0], zero_of(types[0])).sum(axis=(3, 4), dtype=np.int64)
        return scaled(sums, self.multiplier, self.offset, self.shift)


@dataclass(frozen=True, kw_only=True, eq=False)
class Join(Step):
    """The channels of several values one after the other, each value multiplied and shifted, between channels of zeros.

    Args:
        before, after: channels of zeros.
        multipliers, offsets, shifts: m, b and k of each value.
    """

    kind: ClassVar[str] = "join"
    count: ClassVar[tuple[int, int]] = (1, LARGEST_INPUTS)

    before: int
    after: int
    multipliers: tuple[int, ...]
    offsets: tuple[int, ...]
    shifts: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("before", self.before, 0, LARGEST_SIDE)
        check_integer("after", self.after, 0, LARGEST_SIDE)
        count = len(self.inputs)
        check_integers("multipliers", self.multipliers, count, -LARGEST_MULTIPLIER, LARGEST_MULTIPLIER)
        check_integers("offsets", self.offsets, count, -LARGEST_OFFSET, LARGEST_OFFSET)
        check_integers("shifts", self.shifts, count, 0, LARGEST_SHIFT)

    def output_shape(self, read: Sequence[Image]) -> Image:
        if len({image[1:] for image in read}) > 1:
            raise FormatError(f"the values must have one height and width, got shapes {reprlib.repr(list(read))}")
        channels = self.before + sum(image[0] for image in read) + self.after
        return (channels, *read[0][1:])

    def run(self, read: Sequence[Integers], types: Sequence[Quantized]) -> Integers:
        assert self.out is not None
        fixed = zip(read, self.multipliers, self.offsets, self.shifts, strict=True)
        parts = [scaled(*each) for each in fixed]
        sides = ((0, 0), (0, 0), (0, 0), (self.before, self.after))
        made: Integers = np.pad(np.concatenate(parts, axis=3), sides, constant_values=zero_of(self.out))
        return made


KINDS: dict[str, type[Step]] = {step.kind: step for step in (Layer, Rescale, Add, MaxPool, Mean, Join)}
