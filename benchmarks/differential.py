"""The native library against the numpy definition, on random programs of every operation, on every instruction set.

    python benchmarks/differential.py                     # 2,000 programs per instruction set; writes the record
    python benchmarks/differential.py --programs 50 --no-record

A program has values of rank 0 to 5, in float32 and in 8 bits, and runs with one, two or three threads. Every value of
it is compared with what numpy computes, in float64, from the values that the library itself gave to the operation. So
an error cannot hide behind another, and rounding does not add up:

    float32     |found - exact| <= 1e-4 * max(1, largest |exact|)
    8 bits      |found - clip(exact / scale)| <= 1/2 + the same bound in steps of the scale

The second line is exactly the rounding of a float32 result: an integer may differ from numpy's by one where the exact
number lies at the edge between two integers, closer than float32 resolves, and nowhere else. Then the program runs
once more with its last value as its only output, where the library may reuse memory that the first run kept, and must
give the same bits.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.checks import Input
from signwise.program.operations import Operation, Quantized, Shape
from signwise.program.operations.activations import FUNCTIONS
from signwise.program.operations.arithmetic import FUNCTIONS as ARITHMETIC
from signwise.program.operations.reduction import FUNCTIONS as REDUCTIONS
from signwise.program.operations.shape import PAD_MODES
from signwise.program.reference import out_of
from signwise.provenance import write_record
from signwise.runtime import native

Array = npt.NDArray[Any]
BOUND = 1e-4
NUMBERS = {"clip": (-0.5, 0.75), "leaky_relu": (0.125,), "elu": (1.5, 1.25, 0.75), "softplus": (2.0, 5.0)}
POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal")  # defined for positive numbers alone


class Writer:
    """Writes one random program, in which every kind of operation is as likely as any other that fits.

    Args:
        seed: of the program and its inputs.
        eight_bits: whether some values become integers.
    """

    def __init__(self, seed: int, *, eight_bits: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.eight_bits = eight_bits
        self.tensors: dict[str, Array] = {}
        self.ops: list[Operation] = []
        image = (self.number(1, 9), self.number(2, 9), self.number(2, 9))
        tokens = (self.number(1, 3), self.number(1, 7), 4 * self.number(1, 5))
        self.inputs = [Input(shape=image), Input(shape=tokens), Input(shape=(self.number(1, 7),), type="int32")]
        self.shapes: list[Shape] = [given.shape for given in self.inputs]
        self.integers = [False, False, True]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def numbers(self, *shape: int) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = self.rng.normal(size=shape).astype(np.float32)
        return name

    def out(self) -> Quantized | None:
        if not self.eight_bits or self.rng.random() < 0.4:
            return None
        return Quantized(type=self.rng.choice(list(ops.LIMITS)), scale=float(2.0 ** self.number(-6, -2)))

    def any_value(self, *ranks: int) -> int | None:
        """One of the newest values of these ranks, or of any."""
        fitting = [
            value
            for value, shape in enumerate(self.shapes)
            if not self.integers[value] and (not ranks or len(shape) in ranks)
        ]
        return None if not fitting else int(self.rng.choice(fitting[-4:]))

    def put(self, operation: Operation) -> int:
        shape = operation.output_shape([self.shapes[value] for value in operation.inputs])
        self.ops.append(operation)
        self.shapes.append(shape)
        whole = isinstance(operation, ops.ArgMax) or any(self.integers[value] for value in operation.inputs)
        self.integers.append(whole and not isinstance(operation, ops.Embedding))
        return len(self.shapes) - 1

    def bounded(self, value: int, low: float, high: float) -> int:
        return self.put(ops.Activation(inputs=(value,), function="clip", numbers=(low, high)))

    def layer(self, filters: int, terms: int, shape: Shape) -> dict[str, Any]:
        """Weights and epilogue; scaled so that values neither vanish nor explode."""
        binary = self.rng.random() < 0.8
        weight = self.numbers(*shape)
        if binary:
            self.tensors[weight] = ops.pack_signs(np.where(self.tensors[weight] > 0, 1, -1))
        scale = self.numbers(filters)
        self.tensors[scale] /= np.float32(math.sqrt(terms))
        bias = self.numbers(filters) if self.flag() else None
        return {"weight": weight, "bits": 1 if binary else 32, "scale": scale, "bias": bias, "relu": self.flag()}

    def window(self, shape: Shape) -> dict[str, Any]:
        kernel = self.number(1, min(3, shape[1])), self.number(1, min(3, shape[2]))
        padding = tuple(self.number(0, min(1, kernel[side % 2] - 1)) for side in range(4))
        return {"kernel": kernel, "stride": (self.number(1, 2), self.number(1, 2)), "padding": padding}

    def add(self, kind: str) -> bool:
        """Append an operation of this kind if a value fits; says whether one did."""
        images = kind in ("conv", "conv_transpose", "maxpool", "avgpool", "globalpool", "resize", "adaptive_pool")
        value = self.any_value(*((3,) if images else (1, 2, 3, 4, 5) if kind != "constant" else ()))
        if value is None or math.prod(self.shapes[value]) > 4000:
            return False
        shape, rank = self.shapes[value], len(self.shapes[value])
        one: dict[str, Any] = {"inputs": (value,), "out": self.out()}
        axis = self.number(0, max(0, rank - 1))
        match kind:
            case "conv" | "conv_transpose":
                groups = shape[0] if self.rng.random() < 0.3 else 1
                filters = groups * self.number(1, max(1, 36 // groups))
                spread = self.window(shape)
                terms = shape[0] // groups * math.prod(spread["kernel"])
                held = self.layer(filters, terms, (filters, shape[0] // groups, *spread["kernel"]))
                made: type[Any] = ops.Conv
                if kind == "conv_transpose":
                    made, spread["padding"] = ops.ConvTranspose, (0, 0, 0, 0)
                    spread["output_padding"] = tuple(self.number(0, step - 1) for step in spread["stride"])
                self.put(made(out_channels=filters, groups=groups, **spread, **held, **one))
            case "dense":
                filters = self.number(1, 50)
                held = self.layer(filters, shape[-1], (filters, shape[-1]))
                self.put(ops.Dense(out_features=filters, in_features=shape[-1], **held, **one))
            case "affine":
                held = {"scale": self.numbers(shape[0]), "bias": self.numbers(shape[0]), "relu": self.flag()}
                self.put(ops.Affine(**held, **one))
            case "relu":
                self.put(ops.Relu(**one))
            case "add":
                same = [other for other, found in enumerate(self.shapes) if found == shape and not self.integers[other]]
                self.put(ops.Add(inputs=(value, int(self.rng.choice(same))), relu=self.flag(), out=self.out()))
            case "maxpool":
                self.put(ops.MaxPool(**self.window(shape), **one))
            case "avgpool":
                self.put(ops.AvgPool(count_include_pad=self.flag(), **self.window(shape), **one))
            case "globalpool":
                self.put(ops.GlobalPool(**one))
            case "pad_channels":
                self.put(ops.PadChannels(before=self.number(0, 3), after=self.number(0, 3), **one))
            case "flatten":
                self.put(ops.Flatten(**one))
            case "concat":
                other = self.put(ops.Slice(inputs=(value,), **self.part(shape, axis)))
                self.put(ops.Concat(inputs=(value, other, value), axis=axis, out=self.out()))
            case "softmax":
                self.put(ops.Softmax(axis=axis, log=self.flag(), **one))
            case "activation":
                function = str(self.rng.choice(list(FUNCTIONS)))
                read = self.bounded(value, *((0.25, 4.0) if function in POSITIVE else (-4.0, 4.0)))
                held = {"function": function, "numbers": NUMBERS.get(function, ())}
                self.put(ops.Activation(inputs=(read,), out=self.out(), **held))
            case "prelu":
                self.put(ops.PRelu(slope=self.numbers(shape[0]), **one))
            case "sign":
                self.put(ops.Sign(threshold=self.numbers(shape[0]) if self.flag() else None, **one))
            case "arithmetic":
                self.arithmetic(value, shape)
            case "constant":
                sizes = tuple(self.number(1, 5) for _ in range(self.number(0, 3)))
                self.put(ops.Constant(inputs=(), tensor=self.numbers(*sizes), shape=sizes, out=self.out()))
            case "matmul" | "attention":
                self.products(kind, value, shape)
            case "normalize":
                groups = shape[0] if math.prod(shape[1:]) > 1 and self.flag() else 1
                every = groups > 1 or self.flag()
                axes = tuple(range(rank)) if every else (rank - 1,)
                sizes = shape[:1] if every else shape[-1:]
                held = {"axes": axes, "groups": groups, "per_channel": every, "scale": self.numbers(*sizes)}
                self.put(ops.Normalize(epsilon=2.0**-10, centered=self.flag(), **held, **one))
            case "transpose":
                self.put(ops.Transpose(axes=tuple(int(place) for place in self.rng.permutation(rank)), **one))
            case "reshape":
                folded = (shape[0], math.prod(shape[1:])) if rank > 1 else (1, *shape, 1)
                self.put(ops.Reshape(shape=folded, **one))
            case "slice":
                self.put(ops.Slice(**self.part(shape, axis), **one))
            case "pad":
                mode = str(self.rng.choice(list(PAD_MODES)))
                most = [min(2, size - 1) for size in shape]
                sides = [tuple(self.number(0, limit) for limit in most) for _ in range(2)]
                value_of = 0.5 if mode == "constant" and self.flag() else 0.0
                self.put(ops.Pad(before=sides[0], after=sides[1], mode=mode, value=value_of, **one))
            case "expand":
                wide = self.put(ops.Reshape(inputs=(value,), shape=(*shape[:axis], 1, *shape[axis:])))
                if rank < 5:
                    spread_to = (*shape[:axis], self.number(1, 4), *shape[axis:])
                    self.put(ops.Expand(inputs=(wide,), shape=spread_to, out=self.out()))
            case "resize":
                size = self.number(1, 12), self.number(1, 12)
                ratios = tuple(float(np.float32(side / after)) for side, after in zip(shape[1:], size, strict=True))
                mode = str(self.rng.choice(["nearest", "bilinear", "bilinear_aligned"]))
                if mode == "bilinear_aligned":
                    ratios = tuple(
                        float(np.float32((side - 1) / (after - 1))) if after > 1 else 0.0
                        for side, after in zip(shape[1:], size, strict=True)
                    )
                self.put(ops.Resize(size=size, mode=mode, ratios=(ratios[0], ratios[1]), **one))
            case "reduce":
                function = str(self.rng.choice(list(REDUCTIONS)))
                axes = tuple(place for place in range(rank) if place == axis or self.flag())
                self.put(ops.Reduce(function=function, axes=axes, keep=self.flag(), **one))
            case "adaptive_pool":
                size = self.number(1, 5), self.number(1, 5)
                self.put(ops.AdaptivePool(size=size, function="max" if self.flag() else "average", **one))
            case "argmax":
                self.put(ops.ArgMax(inputs=(value,), axis=axis, keep=self.flag()))
            case "embedding":
                self.put(ops.Embedding(inputs=(2,), weight=self.numbers(11, 8), rows=11, width=8, out=self.out()))
            case _:
                raise ValueError(f"no random {kind}: write one")
        return True

    def part(self, shape: Shape, axis: int) -> dict[str, Any]:
        """A slice that leaves all dimensions but one whole."""
        starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[axis] = self.number(0, shape[axis] - 1)
        steps[axis] = self.number(1, 2)
        return {"starts": tuple(starts), "stops": tuple(stops), "steps": tuple(steps)}

    def arithmetic(self, value: int, shape: Shape) -> None:
        function = str(self.rng.choice(list(ARITHMETIC)))
        sizes = tuple(1 if self.flag() else size for size in shape)[self.number(0, len(shape)) :]
        held: dict[str, Any] = {"function": function, "relu": self.flag(), "out": self.out()}
        operand = self.numbers(*sizes)
        if function in ("divide", "power"):
            value, self.tensors[operand] = self.bounded(value, 0.25, 4.0), np.abs(self.tensors[operand]) + 0.25
        if self.flag():
            self.put(ops.Arithmetic(inputs=(value,), operand=operand, shape=sizes, swapped=self.flag(), **held))
        else:
            second = self.put(ops.Constant(inputs=(), tensor=operand, shape=sizes))
            self.put(ops.Arithmetic(inputs=(value, second), **held))

    def products(self, kind: str, value: int, shape: Shape) -> None:
        if len(shape) < 2:
            value = self.put(ops.Reshape(inputs=(value,), shape=(1, *shape)))
            shape = self.shapes[value]
        if kind == "matmul":
            self.put(ops.Matmul(inputs=(value, value), transpose_second=True, scale=0.25, out=self.out()))
            return
        sizes = (shape[-2],)
        masked: dict[str, Any] = {"mask": self.numbers(*sizes), "mask_shape": sizes} if self.flag() else {}
        self.put(ops.Attention(inputs=(value,) * 3, scale=0.25, causal=self.flag(), out=self.out(), **masked))

    def program(self) -> Program:
        wanted = self.number(1, 7)
        while len(self.ops) < wanted:
            self.add(str(self.rng.choice(list(ops.KINDS))))
        last = len(self.shapes) - 1
        return Program(inputs=self.inputs, ops=self.ops, tensors=self.tensors, outputs=[last])

    def examples(self) -> list[Array]:
        batch = self.number(1, 4)
        return [
            self.rng.integers(0, 11, (batch, *given.shape)).astype(np.int32)
            if given.type == "int32"
            else self.rng.normal(size=(batch, *given.shape)).astype(np.float32)
            for given in self.inputs
        ]


@dataclass
class Counted:
    """What was compared on one instruction set."""

    programs: int = 0
    numbers: int = 0
    at_an_edge: int = 0
    largest: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)


def all_values(program: Program, examples: Sequence[Array], threads: int) -> list[Array]:
    """Every value as the library computes it, the inputs first; 8-bit values as numbers."""
    first, count = len(program.inputs), len(program.ops)
    found: list[Array] = list(examples)
    for start in range(0, count, 16):  # as many outputs as a program may have
        listed = [first + index for index in range(start, min(start + 16, count))]
        several = Program(inputs=program.inputs, ops=program.ops, tensors=program.tensors, outputs=listed)
        made = several.session(threads)(*examples)
        found += [made] if len(listed) == 1 else list(made)
    return found


def compare(program: Program, examples: Sequence[Array], threads: int, counted: Counted, bound: float = BOUND) -> None:
    """Hold every value of the library against numpy; raises AssertionError with the first that is out of bounds."""
    first = len(program.inputs)
    values = all_values(program, examples, threads)
    for index, operation in enumerate(program.ops):
        read = [
            values[value] if values[value].dtype == np.int32 else values[value].astype(np.float64)
            for value in operation.inputs
        ]
        found, exact = values[first + index], operation.evaluate(read, program.tensors)
        exact = np.broadcast_to(exact, found.shape)
        counted.kinds[operation.kind] += 1
        counted.numbers += found.size
        if found.dtype == np.int32:
            assert np.array_equal(found, exact), f"{operation}: other whole numbers"
            continue
        kept = out_of(program.ops, index)
        largest = float(np.abs(exact).max(initial=1.0))
        if kept is None:
            error = float(np.abs(found - exact).max(initial=0.0)) / largest
            counted.largest = max(counted.largest, error)
            assert error <= bound, f"{operation}: {error:.1e}"
        else:
            steps = np.clip(exact / kept.scale, *kept.limits)
            integers = np.rint(found / kept.scale)
            apart = np.abs(integers - steps) - 0.5
            assert float(apart.max(initial=-1.0)) <= bound * largest / kept.scale, f"{operation}: {apart.max():.1e}"
            counted.at_an_edge += int((integers != np.rint(steps)).sum())
    whole = program.session(threads)(*examples)
    assert np.array_equal(whole, values[program.outputs[0]]), f"{program.ops[-1]} as the only output"
    counted.programs += 1


def run(isa: str, seeds: range) -> Counted:
    """Random programs in turn in float32 and in 8 bits, with one to three threads, on one instruction set."""
    counted = Counted()
    os.environ["SIGNWISE_ISA"] = isa
    for seed in seeds:
        writer = Writer(seed, eight_bits=bool(seed % 2))
        program = writer.program()
        try:
            compare(program, writer.examples(), 1 + seed % 3, counted)
        except AssertionError as error:
            raise AssertionError(f"seed {seed} on {isa}: {error}") from None
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000, help="per instruction set")
    parser.add_argument("--isa", action="append", help="an instruction set, several times for several; all by default")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/differential.json"), help="the record")
    parser.add_argument("--no-record", action="store_true", help="print only")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.programs)
    isas = arguments.isa or native.available_isas()
    found = [run(isa, seeds) for isa in isas]
    sets = {
        isa: {
            "programs": counted.programs,
            "operations": sum(counted.kinds.values()),
            "kinds": len(counted.kinds),
            "numbers": counted.numbers,
            "at_an_edge": counted.at_an_edge,
            "largest_error": counted.largest,
        }
        for isa, counted in zip(isas, found, strict=True)
    }
    for isa, counts in sets.items():
        print(f"{isa}: {counts}", flush=True)
    if not arguments.no_record:  # a run of one instruction set leaves the rows of the others
        recorded = json.loads(arguments.out.read_text())["sets"] if arguments.out.exists() else {}
        rows = {isa: {**recorded, **sets}[isa] for isa in native.available_isas() if isa in {**recorded, **sets}}
        write_record(arguments.out, {"bound": BOUND, "first_seed": arguments.first_seed, "sets": rows})


if __name__ == "__main__":
    main()
