"""From a program to its integer form: a type for every value, then one step per operation.

Affine maps before a layer without padding become part of its weights, such as the standardization of raw pixels. A pool
of separate windows becomes part of the layer before it, whose own result is then never stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.program import operations as ops
from signwise.program.integers.steps import (
    LARGEST_MULTIPLIER,
    LARGEST_OFFSET,
    LARGEST_SHIFT,
    Add,
    Join,
    Layer,
    MaxPool,
    Mean,
    Rescale,
    Step,
    zero_of,
)
from signwise.program.operations import Quantized, Shape, Tensors, pack_signs
from signwise.program.quantize import BATCH, Range
from signwise.program.reference import out_of, values

SCORE_BITS = 30  # of an output, its sign aside


class Fixed(NamedTuple):
    """The multipliers, offsets and shift that turn sums into results."""

    multipliers: tuple[npt.NDArray[np.int16], ...]  # one array per summand
    offsets: npt.NDArray[np.int32]
    shift: int


def fixed(factors: Sequence[npt.NDArray[Any]], bias: npt.NDArray[Any], zeros: Sequence[npt.NDArray[Any]]) -> Fixed:
    """Integers for ``sum over i of factors[i] * (sums[i] - zeros[i]) + bias``.

    Args:
        factors: real factors of each summand, per channel.
        bias: what is added, in steps of the result, per channel.
        zeros: what the summand is for an input of zeros, per channel: whole numbers.

    Example:
        >>> (multipliers,), offsets, shift = fixed([np.array([0.3])], np.array([2.0]), [np.array([10])])
        >>> [(int(multipliers[0]) * sum + int(offsets[0])) >> shift for sum in (10, 11, 12, 110)]
        [2, 2, 3, 32]
    """
    for shift in range(LARGEST_SHIFT, -1, -1):
        # Whole numbers in float64, exact wherever they fit, so that none wraps before it is compared.
        multipliers = [np.rint(factor * 2.0**shift) for factor in factors]
        offsets = np.rint(bias * 2.0**shift) + (2**shift >> 1)
        for multiplier, zero in zip(multipliers, zeros, strict=True):
            offsets = offsets - multiplier * zero
        largest = max(float(np.abs(multiplier).max()) for multiplier in multipliers)
        if largest <= LARGEST_MULTIPLIER and np.abs(offsets).max() <= LARGEST_OFFSET:
            return Fixed(
                tuple(multiplier.astype(np.int16) for multiplier in multipliers), offsets.astype(np.int32), shift
            )
    raise SignwiseError(
        f"a layer's results are {float(max(np.abs(factor).max() for factor in factors)):.3g} times its sums: too much "
        "for multipliers of 16 bits"
    )


class Planned(NamedTuple):
    """An integer program, in parts."""

    steps: tuple[Step, ...]
    input_type: Quantized
    output_scale: float


def plan_integers(
    operations: Sequence[ops.Operation],
    tensors: Tensors,
    shapes: Sequence[Shape],
    output: int,
    examples: npt.NDArray[Any],
) -> Planned:
    """The steps of a program with one float32 input.

    Args:
        operations: with float32 or 8-bit results; the types of 8-bit values stay, the others fit the examples.
        tensors: by name.
        shapes: of every value, the input's first.
        output: the number of the output.
        examples: typical inputs, ``(count, *shape)``.
    """
    if len(examples) == 0:
        raise SignwiseError("calibration needs at least one example")
    return _Planner(operations, tensors, shapes, output, _types(operations, tensors, examples)).plan()


def _types(
    operations: Sequence[ops.Operation], tensors: Tensors, examples: npt.NDArray[np.float32]
) -> dict[int, Quantized]:
    """An 8-bit type for every value: the program's own, or the one that fits the examples best."""
    found: dict[int, Quantized] = {}
    ranges: dict[int, Range] = {}
    generator = np.random.default_rng(0)
    for start in range(0, len(examples), BATCH):
        for value, numbers in values(operations, tensors, [examples[start : start + BATCH]], np.float32):
            own = out_of(operations, value - 1)
            if own is not None:
                found[value] = own
            else:
                if not np.isfinite(numbers).all():
                    raise SignwiseError(f"value {value} of the program is not finite for a calibration example")
                ranges.setdefault(value, Range()).see(numbers, generator)
    return found | {value: seen.quantized() for value, seen in ranges.items()}


@dataclass
class _Scaled:
    """A value that is an affine map of another one, still to be folded into the layer that reads it."""

    source: int
    factor: npt.NDArray[np.float64]
    offset: npt.NDArray[np.float64]


@dataclass
class _Planner:
    """Turns the operations of a program into steps, one after the other."""

    operations: Sequence[ops.Operation]
    tensors: Tensors
    shapes: Sequence[Shape]
    output: int  # the number of the value that the last step makes
    chosen: dict[int, Quantized]  # the type of each value of the program
    steps: list[Step] = field(default_factory=list)
    made: dict[int, int] = field(default_factory=lambda: {0: 0})  # values of the program to those of the steps
    types: list[Quantized] = field(default_factory=list)  # of the values of the steps
    scaled: dict[int, _Scaled] = field(default_factory=dict)
    output_scale: float = 1.0

    def plan(self) -> Planned:
        if len(self.shapes[0]) not in (1, 3):
            raise SignwiseError(f"the integer form takes an image or a vector, not an input of shape {self.shapes[0]}")
        self.types.append(self.chosen[0])
        output = self.output
        while output and isinstance(self.operations[output - 1], ops.Softmax):
            # The order of the scores stays, and a chip has no exponential.
            output = self.operations[output - 1].inputs[0]
        self.output = output
        last = self.operations[output - 1] if output else None
        if not isinstance(last, ops.Conv | ops.Dense) or len(last.inputs) > 1 or last.relu:
            raise SignwiseError("the integer form needs a program whose outputs come from a convolution or dense layer")
        for value, operation in enumerate(self.operations[:output], start=1):
            self._add(operation, value)
        return Planned(tuple(self.steps), self.types[0], self.output_scale)

    def _append(self, value: int, step: Step) -> None:
        """One more step, which makes a value of the program."""
        self.steps.append(step)
        self.made[value] = len(self.steps)
        if step.out is not None:
            self.types.append(step.out)

    def _type(self, value: int) -> Quantized:
        """The type of a value of the program that a step has made."""
        return self.types[self.made[value]]

    def _add(self, operation: ops.Operation, value: int) -> None:
        handlers: dict[type[ops.Operation], Callable[[Any, int], object]] = {
            ops.Conv: self._layer,
            ops.Dense: self._layer,
            ops.Affine: self._affine,
            ops.Relu: self._relu,
            ops.Add: self._sum,
            ops.MaxPool: self._max_pool,
            ops.AvgPool: self._avg_pool,
            ops.GlobalPool: self._avg_pool,
            ops.PadChannels: self._channels,
            ops.Concat: self._channels,
            ops.Flatten: self._flatten,
        }
        is_new = operation.version([self.shapes[read] for read in operation.inputs]) > 1
        if is_new or type(operation) not in handlers:
            self._refuse(operation, value)
        handlers[type(operation)](operation, value)

    def _refuse(self, operation: ops.Operation, value: int) -> NoReturn:
        raise SignwiseError(
            f"operation {value} ({operation.kind}) has no integer form: networks for microcontrollers are made of "
            "convolutions, dense layers, ReLU, pools, additions and concatenations of channels"
        )

    def _readers(self, value: int) -> list[ops.Operation]:
        return [operation for operation in self.operations if value in operation.inputs]

    def _affine(self, operation: ops.Affine, value: int) -> None:
        factor = self.tensors[operation.scale].astype(np.float64)
        offset = self.tensors[operation.bias].astype(np.float64)
        source = operation.inputs[0]
        if source in self.scaled:
            before = self.scaled[source]
            source, offset, factor = before.source, factor * before.offset + offset, factor * before.factor
        if not operation.relu and all(self._takes_affine(reader, value, factor) for reader in self._readers(value)):
            self.scaled[value] = _Scaled(source, factor, offset)
        else:
            self._rescale(value, source, factor, offset, relu=operation.relu)

    def _takes_affine(self, reader: ops.Operation, value: int, factor: npt.NDArray[np.float64]) -> bool:
        """Whether a layer can absorb an affine map of its input: padding would be zeros after the map, not before."""
        if isinstance(reader, ops.Affine):
            return True
        plain = isinstance(reader, ops.Dense) or (isinstance(reader, ops.Conv) and not any(reader.padding))
        if not plain or not isinstance(reader, ops.Weighted) or value in reader.inputs[1:]:
            return False
        return reader.bits != 1 or bool(np.all(factor == factor[0]) and factor[0] != 0)

    def _rescale(
        self,
        value: int,
        source: int,
        factor: npt.NDArray[np.float64],
        offset: npt.NDArray[np.float64],
        *,
        relu: bool,
    ) -> None:
        read, out = self._type(source), self.chosen[value]
        (multipliers,), offsets, shift = fixed(
            [factor * (read.scale / out.scale)], offset / out.scale + zero_of(out), [np.array([zero_of(read)])]
        )
        step = Rescale(
            inputs=(self.made[source],), out=out, multipliers=multipliers, offsets=offsets, shift=shift, relu=relu
        )
        self._append(value, step)

    def _relu(self, operation: ops.Relu, value: int) -> None:
        self._rescale(value, operation.inputs[0], np.ones(1), np.zeros(1), relu=True)

    def _channels(self, operation: ops.PadChannels | ops.Concat, value: int) -> None:
        out = self.chosen[value]
        before, after = (operation.before, operation.after) if isinstance(operation, ops.PadChannels) else (0, 0)
        parts = []
        for read in map(self._type, operation.inputs):
            factors, zeros = [np.array([read.scale / out.scale])], [np.array([zero_of(read)])]
            parts.append(fixed(factors, np.array([float(zero_of(out))]), zeros))
        step = Join(
            inputs=tuple(self.made[source] for source in operation.inputs),
            out=out,
            before=before,
            after=after,
            multipliers=tuple(int(part.multipliers[0][0]) for part in parts),
            offsets=tuple(int(part.offsets[0]) for part in parts),
            shifts=tuple(part.shift for part in parts),
        )
        self._append(value, step)

    def _sum(self, operation: ops.Add, value: int) -> None:
        reads, out = [self._type(source) for source in operation.inputs], self.chosen[value]
        factors = [np.array([read.scale / out.scale]) for read in reads]
        (first, second), offsets, shift = fixed(
            factors, np.array([float(zero_of(out))]), [np.array([zero_of(read)]) for read in reads]
        )
        step = Add(
            inputs=tuple(self.made[source] for source in operation.inputs),
            out=out,
            multipliers=(int(first[0]), int(second[0])),
            offset=int(offsets[0]),
            shift=shift,
            relu=operation.relu,
        )
        self._append(value, step)

    def _max_pool(self, operation: ops.MaxPool, value: int) -> None:
        source, kernel = operation.inputs[0], operation.kernel
        number = self.made[source]
        layer = self.steps[number - 1] if number else None
        if (
            isinstance(layer, Layer)
            and (layer.pool, len(layer.inputs), len(self._readers(source))) == ((1, 1), 1, 1)
            and kernel == operation.stride
            and not any(operation.padding)
        ):
            # Windows that lie apart, of a value that nothing else reads: it is never stored.
            self.steps[number - 1] = replace(layer, pool=kernel)
            self.made[value] = number
            return
        step = MaxPool(
            inputs=(number,),
            out=self._type(source),  # the largest byte is a byte of the input
            kernel=kernel,
            stride=operation.stride,
            padding=operation.padding,
        )
        self._append(value, step)

    def _avg_pool(self, operation: ops.AvgPool | ops.GlobalPool, value: int) -> None:
        source = operation.inputs[0]
        read, out = self._type(source), self.chosen[value]
        window: dict[str, Any]
        if isinstance(operation, ops.AvgPool):
            if any(operation.padding) and not operation.count_include_pad:
                raise SignwiseError(
                    f"operation {value} (avgpool): means that leave the padding out have no integer form"
                )
            window = {"kernel": operation.kernel, "stride": operation.stride, "padding": operation.padding}
        else:
            window = {"kernel": self.shapes[source][1:], "stride": (1, 1), "padding": (0, 0, 0, 0)}
        count = math.prod(window["kernel"])
        factor = np.array([read.scale / (count * out.scale)])
        (multipliers,), offsets, shift = fixed(
            [factor], np.array([float(zero_of(out))]), [np.array([count * zero_of(read)])]
        )
        step = Mean(
            inputs=(self.made[source],),
            out=out,
            multiplier=int(multipliers[0]),
            offset=int(offsets[0]),
            shift=shift,
            **window,
        )
        self._append(value, step)

    def _flatten(self, operation: ops.Flatten, value: int) -> None:
        source = operation.inputs[0]
        if math.prod(self.shapes[source][1:]) > 1 and not all(
            isinstance(reader, ops.Dense) for reader in self._readers(value)
        ):
            raise SignwiseError(f"operation {value} (flatten): only dense layers can read it in integers")
        self.made[value] = self.made[source]

    def _layer(self, operation: ops.Conv | ops.Dense, value: int) -> None:
        source, bias_from_input = operation.inputs[0], np.zeros(1)
        binary = operation.bits == 1
        real = operation.unpacked_weight(self.tensors, self.shapes[source]).astype(np.float64)
        scale = np.ones(len(real)) if operation.scale is None else self.tensors[operation.scale].astype(np.float64)
        bias = np.zeros(len(real)) if operation.bias is None else self.tensors[operation.bias].astype(np.float64)
        if source in self.scaled:
            # scale * w (factor * x + offset) + bias, one factor and offset per input channel
            before = self.scaled[source]
            source = before.source
            groups = operation.groups if isinstance(operation, ops.Conv) else 1
            factor, offset = (_per_input(numbers, real.shape, groups) for numbers in (before.factor, before.offset))
            bias_from_input = (real * offset).reshape(len(real), -1).sum(axis=1)
            if binary:
                scale, bias_from_input = scale * before.factor[0], bias_from_input / before.factor[0]
            else:
                real = real * factor
            bias = bias + scale * bias_from_input
        if binary:
            whole, steps = real.astype(np.int8), scale
        else:
            flat = np.abs(real).reshape(len(real), -1).max(axis=1)
            flat[flat == 0] = 1
            steps = flat / 127
            whole = np.rint(real / steps.reshape(-1, *[1] * (real.ndim - 1))).astype(np.int8)
            steps = steps * scale
        window: dict[str, Any] = {}
        if isinstance(operation, ops.Conv):
            whole = whole.transpose(0, 2, 3, 1)  # (out, in, kh, kw) -> (out, kh, kw, in)
            names = ("kernel", "stride", "padding", "dilation", "groups")
            window = {name: getattr(operation, name) for name in names}
        elif len(image := self._image(source)) == 3:
            # The bytes of a flattened image come in the order height, width, channels.
            whole = whole.reshape(-1, *image).transpose(0, 2, 3, 1)
        rows = whole.reshape(len(whole), -1)
        read, out = self._type(source), None if value == self.output else self.chosen[value]
        sums, unit = rows.sum(axis=1, dtype=np.int64), read.scale * steps
        if out is None:
            # As fine as 30 bits hold, and no finer than a 4096th of the coarsest product.
            most = 255 * np.abs(rows.astype(np.int16)).sum(axis=1, dtype=np.int64)
            largest = float(np.max(most * np.abs(unit) + np.abs(bias)))
            made_scale = float(np.float32(max(largest / 2**SCORE_BITS, float(np.abs(unit).max()) / 4096)))
            self.output_scale = made_scale
        else:
            made_scale = out.scale
        factors, zeros = [unit / made_scale], [sums * zero_of(read)]
        for other in map(self._type, operation.inputs[1:]):
            factors.append(np.array([other.scale / made_scale]))
            zeros.append(np.array([zero_of(other)]))
        (multipliers, *residual), offsets, shift = fixed(
            factors, bias / made_scale + (0 if out is None else zero_of(out)), zeros
        )
        step = Layer(
            inputs=(self.made[source], *(self.made[other] for other in operation.inputs[1:])),
            out=out,
            weight=pack_signs(rows) if binary else rows,
            multipliers=multipliers,
            offsets=offsets,
            shift=shift,
            flatten=isinstance(operation, ops.Dense),
            relu=operation.relu,
            residual_multiplier=int(residual[0][0]) if residual else None,
            **window,
        )
        self._append(value, step)

    def _image(self, value: int) -> Shape:
        """The shape of the value that has the bytes of this one: of the image that it flattens."""
        operation = self.operations[value - 1] if value else None
        return self._image(operation.inputs[0]) if isinstance(operation, ops.Flatten) else self.shapes[value]


def _per_input(numbers: npt.NDArray[np.float64], shape: Shape, groups: int) -> npt.NDArray[np.float64]:
    """Numbers per input channel, in the shape of a weight: ``(filters, channels of a group, ...)``."""
    filters, channels = shape[0], shape[1]
    rows = np.repeat(numbers.reshape(groups, channels), filters // groups, axis=0)
    return rows.reshape(filters, channels, *[1] * (len(shape) - 2))
