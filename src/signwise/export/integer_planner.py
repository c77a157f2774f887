"""From a program to its integer form: a type for every value, then one step per operation.

Affine maps before a layer without padding become part of its weights, such as the standardization of raw pixels. A pool
of separate windows becomes part of the layer before it, whose own result is then never stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.export.integer import AnyStep, Bytes, Fixed, Layer, Plan, Pool, Rescale, Sum, Window, fixed
from signwise.program import operations as ops
from signwise.program.operations import Quantized, Shape
from signwise.program.program import Program
from signwise.program.quantize import BATCH, Range
from signwise.program.reference import values

SCORE_BITS = 30  # of an output, its sign aside


def integer_plan(program: Program, examples: npt.NDArray[Any]) -> Plan:
    """The program in integers alone.

    Args:
        program: with float32 or 8-bit values; the types of 8-bit values stay, the others are chosen on the examples.
        examples: typical inputs, ``(count, *input_shape)``; a hundred are plenty.

    Raises:
        SignwiseError: an operation of the program has no integer form; the message names it.
    """
    if len(examples) == 0:
        raise SignwiseError("calibration needs at least one example")
    return _Planner(program, _types(program, program.as_input(examples))).plan()


def _types(program: Program, examples: npt.NDArray[np.float32]) -> dict[int, Quantized]:
    """An 8-bit type for every value: the program's own, or the one that fits the examples best."""
    found: dict[int, Quantized] = {}
    ranges: dict[int, Range] = {}
    generator = np.random.default_rng(0)
    for start in range(0, len(examples), BATCH):
        for value, numbers in values(program.ops, program.tensors, [examples[start : start + BATCH]], np.float32):
            own = program.quantization(value)
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

    program: Program
    types: dict[int, Quantized]
    steps: list[AnyStep] = field(default_factory=list)
    values: dict[int, Bytes | None] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)  # values whose bytes are those of another one
    scaled: dict[int, _Scaled] = field(default_factory=dict)
    output_scale: float = 1.0

    def plan(self) -> Plan:
        program, output = self.program, self.program.output
        self.values[0] = self._bytes(0)
        while output and isinstance(program.ops[output - 1], ops.Softmax):
            output = program.ops[output - 1].inputs[0]  # the order of the scores stays, and a chip has no exponential
        last = program.ops[output - 1] if output else None
        if not isinstance(last, ops.Conv | ops.Dense) or len(last.inputs) > 1 or last.relu:
            raise SignwiseError("the integer form needs a program whose outputs come from a convolution or dense layer")
        for value, operation in enumerate(program.ops[:output], start=1):
            self._add(operation, value, is_output=value == output)
        self._fuse_pools()
        return Plan(
            source=program,
            values=self.values,
            steps=tuple(self.steps),
            output=output,
            output_scale=self.output_scale,
        )

    def _bytes(self, value: int) -> Bytes:
        return Bytes.of(self.types[value], self.program.shapes[value])

    def _of(self, value: int) -> Bytes:
        found = self.values[self.same.get(value, value)]
        assert found is not None
        return found

    def _add(self, operation: ops.Operation, value: int, *, is_output: bool) -> None:
        handlers: dict[type[ops.Operation], Callable[[Any, int], None]] = {
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
        if operation.version([self.program.shapes[read] for read in operation.inputs]) > 1:
            self._refuse(operation, value)
        if isinstance(operation, ops.Conv | ops.Dense):
            self._layer(operation, value, is_output=is_output)
        elif type(operation) in handlers:
            handlers[type(operation)](operation, value)
        else:
            self._refuse(operation, value)

    def _refuse(self, operation: ops.Operation, value: int) -> NoReturn:
        raise SignwiseError(
            f"operation {value} ({operation.kind}) has no integer form: networks for microcontrollers are made of "
            "convolutions, dense layers, ReLU, pools, additions and concatenations of channels"
        )

    def _readers(self, value: int) -> list[ops.Operation]:
        return [operation for operation in self.program.ops if value in operation.inputs]

    def _affine(self, operation: ops.Affine, value: int) -> None:
        factor = self.program.tensors[operation.scale].astype(np.float64)
        offset = self.program.tensors[operation.bias].astype(np.float64)
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
        first: int = 0,
    ) -> None:
        read, into = self._of(source), self._bytes(value)
        self.values[value] = into
        scaled = fixed([factor * (read.scale / into.scale)], offset / into.scale + into.zero, [np.array([read.zero])])
        low = into.zero if relu else into.low
        source = self.same.get(source, source)
        self.steps.append(Rescale(name="rescale", inputs=(source,), makes=value, fixed=scaled, low=low, first=first))

    def _relu(self, operation: ops.Relu, value: int) -> None:
        one = np.ones(1)
        self._rescale(value, operation.inputs[0], one, 0 * one, relu=True)

    def _channels(self, operation: ops.PadChannels | ops.Concat, value: int) -> None:
        one = np.ones(1)
        first = operation.before if isinstance(operation, ops.PadChannels) else 0
        for source in operation.inputs:
            self._rescale(value, source, one, 0 * one, relu=False, first=first)
            first += self._of(source).shape[0]

    def _sum(self, operation: ops.Add, value: int) -> None:
        reads, into = [self._of(source) for source in operation.inputs], self._bytes(value)
        self.values[value] = into
        factors = [np.array([read.scale / into.scale]) for read in reads]
        scaled = fixed(factors, np.array([float(into.zero)]), [np.array([read.zero]) for read in reads])
        sources = tuple(self.same.get(source, source) for source in operation.inputs)
        low = into.zero if operation.relu else into.low
        self.steps.append(Sum(name="add", inputs=sources, makes=value, fixed=scaled, low=low))

    def _max_pool(self, operation: ops.MaxPool, value: int) -> None:
        source = self.same.get(operation.inputs[0], operation.inputs[0])
        read = self._of(source)
        # The largest byte is a byte of the input: its type stays.
        shape = self.program.shapes[value]
        self.values[value] = Bytes(
            shape=(shape[0], shape[1], shape[2]), scale=read.scale, zero=read.zero, low=read.low, high=read.high
        )
        window = Window(kernel=operation.kernel, stride=operation.stride, padding=operation.padding)
        unused = Fixed(multipliers=(), offsets=np.zeros(1, np.int64), shift=0)
        self.steps.append(
            Pool(name="maxpool", inputs=(source,), makes=value, fixed=unused, window=window, mean=False, zero=0)
        )

    def _avg_pool(self, operation: ops.AvgPool | ops.GlobalPool, value: int) -> None:
        source = self.same.get(operation.inputs[0], operation.inputs[0])
        read, into = self._of(source), self._bytes(value)
        self.values[value] = into
        if isinstance(operation, ops.AvgPool):
            if any(operation.padding) and not operation.count_include_pad:
                raise SignwiseError(
                    f"operation {value} (avgpool): means that leave the padding out have no integer form"
                )
            window = Window(kernel=operation.kernel, stride=operation.stride, padding=operation.padding)
        else:
            window = Window(kernel=read.shape[1:])
        count = math.prod(window.kernel)
        factor = np.array([read.scale / (count * into.scale)])
        scaled = fixed([factor], np.array([float(into.zero)]), [np.array([count * read.zero])])
        self.steps.append(
            Pool(name="mean", inputs=(source,), makes=value, fixed=scaled, window=window, mean=True, zero=read.zero)
        )

    def _flatten(self, operation: ops.Flatten, value: int) -> None:
        source = operation.inputs[0]
        if math.prod(self.program.shapes[source][1:]) > 1 and not all(
            isinstance(reader, ops.Dense) for reader in self._readers(value)
        ):
            raise SignwiseError(f"operation {value} (flatten): only dense layers can read it in integers")
        self.same[value] = self.same.get(source, source)

    def _layer(self, operation: ops.Conv | ops.Dense, value: int, *, is_output: bool) -> None:
        source, bias_from_input = operation.inputs[0], np.zeros(1)
        binary = operation.bits == 1
        tensors = self.program.tensors
        shape = self.program.shapes[source]
        real = operation.unpacked_weight(tensors, shape).astype(np.float64)
        scale = np.ones(len(real)) if operation.scale is None else tensors[operation.scale].astype(np.float64)
        bias = np.zeros(len(real)) if operation.bias is None else tensors[operation.bias].astype(np.float64)
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
        read = self._of(source)
        source = self.same.get(source, source)
        if isinstance(operation, ops.Dense):
            # The bytes of a flattened image come in the order height, width, channels.
            channels, height, width = read.shape
            whole = whole.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(whole), 1, 1, -1)
            window, groups = Window(), 1
        else:
            whole = whole.transpose(0, 2, 3, 1)  # (out, in, kh, kw) -> (out, kh, kw, in)
            window = Window(
                kernel=operation.kernel,
                stride=operation.stride,
                padding=operation.padding,
                dilation=operation.dilation,
            )
            groups = operation.groups
        sums = whole.astype(np.int64).reshape(len(whole), -1).sum(axis=1)
        most = np.abs(whole.astype(np.int64)).reshape(len(whole), -1).sum(axis=1) * 255
        into = None if is_output else self._bytes(value)
        unit = read.scale * steps
        if into is None:
            # As fine as 30 bits hold, and no finer than a 4096th of the coarsest product.
            largest = float(np.max(most * np.abs(unit) + np.abs(bias)))
            self.output_scale = step = max(largest / 2**SCORE_BITS, float(np.abs(unit).max()) / 4096)
            zero, low = 0, 0
        else:
            step, zero, low = into.scale, into.zero, into.zero if operation.relu else into.low
        factors, zeros = [unit / step], [sums * read.zero]
        sources: tuple[int, ...] = (source,)
        if len(operation.inputs) == 2:
            other = self._of(operation.inputs[1])
            factors.append(np.array([other.scale / step]))
            zeros.append(np.array([other.zero]))
            sources = (source, self.same.get(operation.inputs[1], operation.inputs[1]))
        self.values[value] = into
        reach = np.max(most * np.abs(factors[0]) + np.abs(bias) / step + 255 * sum(float(f.max()) for f in factors[1:]))
        if most.max() >= 2**31 or reach >= 2**31:
            raise SignwiseError(f"operation {value} ({operation.kind}): its sums may exceed 32 bits")
        self.steps.append(
            Layer(
                name="conv" if isinstance(operation, ops.Conv) else "dense",
                inputs=sources,
                makes=value,
                fixed=fixed(factors, bias / step + zero, zeros),
                weight=whole,
                binary=binary,
                window=window,
                groups=groups,
                zero=read.zero,
                low=low,
            )
        )

    def _fuse_pools(self) -> None:
        """A pool of separate windows that alone reads a layer becomes part of it: the layer's value is never stored."""
        for index in range(len(self.steps) - 1):
            layer, pool = self.steps[index], self.steps[index + 1]
            if not isinstance(layer, Layer) or not isinstance(pool, Pool) or pool.mean or len(layer.inputs) > 1:
                continue
            readers = sum(layer.makes in step.inputs for step in self.steps)
            apart = pool.window.kernel == pool.window.stride and not any(pool.window.padding)
            if pool.inputs == (layer.makes,) and readers == 1 and apart:
                del self.values[layer.makes]
                changes = {"makes": pool.makes, "pool": pool.window.kernel}
                self.steps[index] = Layer(**{**vars(layer), **changes})
                del self.steps[index + 1]
                self._fuse_pools()
                return


def _per_input(numbers: npt.NDArray[np.float64], shape: Shape, groups: int) -> npt.NDArray[np.float64]:
    """Numbers per input channel, in the shape of a weight: ``(filters, channels of a group, ...)``."""
    filters, channels = shape[0], shape[1]
    rows = np.repeat(numbers.reshape(groups, channels), filters // groups, axis=0)
    return rows.reshape(filters, channels, *[1] * (len(shape) - 2))
