"""A program in integers alone, for machines without floating point: what the C export writes.

Every value is a byte u that stands for s * (u - z): z is 0 where no number is negative, else 128. Layers with one bit
per weight keep their signs; all others get 8-bit weights with one scale per filter. A layer adds products of integers,
and its sum becomes the next byte by one multiplication, one addition and one shift:

    u' = clamp((m * sum + b) >> k),     m of 16 bits and b of 32 bits per filter, k per layer

The shift rounds towards minus infinity and b contains half a step, so halves round up. b also contains the bias and the
zeros of both values. The product has 64 bits. m carries the scales, and k is as large as m and b allow: the error of m
moves a result by less than a tenth of a step. Pools, sums of two values and changes of scale follow the same rule, and
the outputs are such sums in 32 bits, without the clamp.

``Plan.run`` evaluates this in numpy. The C code gives the same integers, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.program.operations import Pair, Quantized, Shape
from signwise.program.program import Program, error_rate

Integers: TypeAlias = npt.NDArray[np.integer[Any]]

LARGEST_SHIFT = 30


@dataclass(frozen=True, kw_only=True)
class Bytes:
    """The type of a value: bytes u that stand for ``scale * (u - zero)``.

    Args:
        shape: ``(channels, height, width)``; vectors are images of one pixel.
        scale: s.
        zero: z, the byte of the number 0.
        low, high: the smallest and the largest byte.
    """

    shape: tuple[int, int, int]
    scale: float
    zero: int
    low: int
    high: int

    @classmethod
    def of(cls, quantized: Quantized, shape: Shape) -> Bytes:
        """The bytes for an 8-bit type of a program."""
        low, high = quantized.limits
        zero = -low
        image = (shape[0], shape[1], shape[2]) if len(shape) == 3 else (math.prod(shape), 1, 1)
        return cls(shape=image, scale=quantized.scale, zero=zero, low=0, high=high + zero)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """The multipliers, offsets and shift that turn sums into results."""

    multipliers: tuple[Integers, ...]  # one array per summand
    offsets: Integers
    shift: int

    def apply(self, *sums: Integers) -> Integers:
        total = self.offsets + sum(
            (number * multiplier for number, multiplier in zip(sums, self.multipliers, strict=True)),
            np.zeros((), np.int64),
        )
        result: Integers = total >> self.shift  # numpy shifts towards minus infinity
        return result


def fixed(factors: Sequence[npt.NDArray[Any]], bias: npt.NDArray[Any], zeros: Sequence[npt.NDArray[Any]]) -> Fixed:
    """Integers for ``sum over i of factors[i] * (sums[i] - zeros[i]) + bias``.

    Args:
        factors: real factors of each summand, per channel.
        bias: what is added, in steps of the result, per channel.
        zeros: what the summand is for an input of zeros, per channel: whole numbers.

    Example:
        >>> scaled = fixed([np.array([0.3])], np.array([2.0]), [np.array([10])])
        >>> [scaled.apply(np.array([sum]))[0] for sum in (10, 11, 12, 110)]
        [np.int64(2), np.int64(2), np.int64(3), np.int64(32)]
    """
    for shift in range(LARGEST_SHIFT, -1, -1):
        multipliers = tuple(np.rint(factor * 2.0**shift).astype(np.int64) for factor in factors)
        offsets = np.rint(bias * 2.0**shift).astype(np.int64) + (2**shift >> 1)
        for multiplier, zero in zip(multipliers, zeros, strict=True):
            offsets = offsets - multiplier * zero.astype(np.int64)
        largest = max(int(np.abs(multiplier).max()) for multiplier in multipliers)
        if largest < 2**15 and int(np.abs(offsets).max()) < 2**31:
            return Fixed(multipliers=multipliers, offsets=offsets, shift=shift)
    raise SignwiseError(
        f"a layer's results are {float(max(np.abs(factor).max() for factor in factors)):.3g} times its sums: too much "
        "for multipliers of 16 bits"
    )


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of a kernel: reads the values ``inputs``, makes the value ``makes``."""

    name: str
    inputs: tuple[int, ...]
    makes: int
    fixed: Fixed

    def run(self, inputs: Sequence[Integers], into: Bytes | None) -> Integers:
        """The result for ``(batch, height, width, channels)``; ``into`` is ``None`` for the outputs."""
        raise NotImplementedError(f"{type(self).__name__} has no run")


@dataclass(frozen=True, kw_only=True)
class Window:
    """How a window slides over an image."""

    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: Pair = (1, 1)

    def patches(self, images: Integers, fill: int) -> Integers:
        """(batch, height, width, channels) -> (batch, rows, columns, kh, kw, channels)"""
        top, left, bottom, right = self.padding
        padded = np.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
        extent = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        seen = np.lib.stride_tricks.sliding_window_view(padded, extent, (1, 2))
        seen = seen[:, :: self.stride[0], :: self.stride[1], :, :: self.dilation[0], :: self.dilation[1]]
        patches: Integers = seen.transpose(0, 1, 2, 4, 5, 3)
        return patches


@dataclass(frozen=True, kw_only=True)
class Layer(Step):
    """A convolution or dense layer, followed by the largest of ``pool`` pixels; a second input is a residual.

    Args:
        weight: integers, ``(filters, kh, kw, channels of a group)``.
        binary: whether they are signs.
        zero: the byte that the padding has.
    """

    weight: npt.NDArray[np.int8]
    binary: bool
    window: Window
    groups: int
    zero: int
    low: int
    pool: Pair = (1, 1)

    def run(self, inputs: Sequence[Integers], into: Bytes | None) -> Integers:
        # A dense layer reads an image as one pixel.
        images = inputs[0] if self.name == "conv" else inputs[0].reshape(len(inputs[0]), 1, 1, -1)
        patches = self.window.patches(images, self.zero)
        batch, rows, columns = patches.shape[:3]
        parts = []
        for weight, channels in zip(
            np.split(self.weight, self.groups), np.split(patches, self.groups, axis=-1), strict=True
        ):
            matrix = weight.reshape(len(weight), -1).astype(np.int64)
            # Exact: every partial sum is a whole number that the type holds.
            exact = np.float32 if 255 * np.abs(matrix).sum(axis=1).max() < 2**24 else np.float64
            parts.append(channels.reshape(batch * rows * columns, -1).astype(exact) @ matrix.T.astype(exact))
        sums = np.concatenate(parts, axis=1).astype(np.int64).reshape(batch, rows, columns, -1)
        made = self.fixed.apply(sums, *(read.astype(np.int64) for read in inputs[1:]))
        if into is None:
            return made
        made = np.clip(made, self.low, into.high).astype(np.uint8)
        return _largest(Window(kernel=self.pool, stride=self.pool).patches(made, 0))


@dataclass(frozen=True, kw_only=True)
class Rescale(Step):
    """Each channel multiplied and shifted, into the channels of the result from ``first`` on."""

    low: int
    first: int = 0

    def run(self, inputs: Sequence[Integers], into: Bytes | None) -> Integers:
        made = self.fixed.apply(inputs[0].astype(np.int64))
        return made if into is None else np.clip(made, self.low, into.high)


@dataclass(frozen=True, kw_only=True)
class Sum(Step):
    """Two values added, number by number."""

    low: int

    def run(self, inputs: Sequence[Integers], into: Bytes | None) -> Integers:
        made = self.fixed.apply(*(read.astype(np.int64) for read in inputs))
        return made if into is None else np.clip(made, self.low, into.high)


@dataclass(frozen=True, kw_only=True)
class Pool(Step):
    """The largest byte of each window, or the mean."""

    window: Window
    mean: bool
    zero: int

    def run(self, inputs: Sequence[Integers], into: Bytes | None) -> Integers:
        # A byte of padding is never larger than one of the image, and means 0 in a mean.
        seen = self.window.patches(inputs[0], self.zero if self.mean else 0)
        if not self.mean:
            return _largest(seen)
        made = self.fixed.apply(seen.sum(axis=(3, 4), dtype=np.int64))
        return made if into is None else np.clip(made, into.low, into.high)


AnyStep: TypeAlias = Union[Layer, Rescale, Sum, Pool]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """An integer program.

    Args:
        source: the program it was made from.
        values: the type of each value by its number; ``None`` for the outputs, which are 32-bit integers.
        steps: in order.
        output: the number of the outputs.
        output_scale: what 1 means in the outputs.
    """

    source: Program
    values: Mapping[int, Bytes | None]
    steps: tuple[AnyStep, ...]
    output: int
    output_scale: float

    def run(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """The outputs as 32-bit integers, ``(batch, outputs)``.

        Args:
            examples: what the program takes, such as raw pixels.
        """
        made: dict[int, npt.NDArray[Any]] = {0: self.as_bytes(examples)}
        for step in self.steps:
            into = self.values[step.makes]
            result = step.run([made[value] for value in step.inputs], into)
            if isinstance(step, Rescale) and into is not None:
                whole = made.get(step.makes)
                if whole is None:
                    whole = np.full((*result.shape[:3], into.shape[0]), into.zero, np.uint8)
                whole[..., step.first : step.first + result.shape[3]] = result
                result = whole
            # A vector of a flattened image has the order of the image in memory: height, width, channels.
            if into is not None:
                result = result.astype(np.uint8).reshape(len(result), *into.shape[1:], into.shape[0])
            made[step.makes] = result
        return made[self.output].reshape(len(examples), -1).astype(np.int32)

    def as_bytes(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Examples as bytes in the order of the C code: ``(batch, height, width, channels)``."""
        first = self.values[0]
        assert first is not None
        read = self.source.as_input(examples).astype(np.float64)
        rounded = np.clip(np.floor(read / first.scale + first.zero + 0.5), first.low, first.high)
        images = rounded.reshape(-1, *first.shape).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(images, np.uint8)

    def error(self, images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
        """The share of images whose largest output is not at their label."""
        return error_rate(self.run, images, labels)


def _largest(windows: Integers) -> Integers:
    found: Integers = windows.max(axis=(3, 4))
    return found
