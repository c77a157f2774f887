"""Thousands of damaged and hostile files for the reader: each must load or be refused with a FormatError.

    python tests/fuzz_file.py --count 100000 --seed 0 [--run] [--jobs 2]

``ALL_SEEDS`` hold every operation, function and mode of the format, and every step of programs in integers alone.
Mutations work on three levels: raw bytes, the container's header, and the program inside it. With ``--run`` the mutants
that still load and are small enough are also run, with whatever kernels the runtime chooses; programs in integers alone
run in numpy and are written as C. The first crash or report of a sanitizer ends everything.
"""

from __future__ import annotations

import argparse
import copy
import functools
import itertools
import json
import multiprocessing
import operator
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from signwise.errors import FormatError, SignwiseError
from signwise.export import to_c
from signwise.program import IntegerProgram, Program
from signwise.program import operations as ops
from signwise.program.checks import Input
from signwise.program.integers import steps
from signwise.program.operations import activations, arithmetic, pack_signs, reduction, resampling
from signwise.program.operations.shape import PAD_MODES
from signwise.program.program import decode_any

# Numbers and texts that tend to break readers: limits, signs, wrong types, overflows.
NASTY: list[Any] = [
    0, 1, -1, 2, 3, 7, 8, 9, 255, 256, 1023, 1024, 1025, 2**15, 2**28, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**30,
    0.0, -0.5, 1.5, 1e-45, 1e308, True, False, None, "", "a", "0", "stem.weight", "\ud800", "\x1b[2J", [], {}, [[]],
    [0], [-1], [1, 1], [0, 0, 0, 0], [1023, 1023, 1023, 1023], [2**31, 1], "conv", "dense", "softmax", "int8", "F64",
]  # fmt: skip


def sample_program() -> Program:
    """A small program with every operation, both kinds of weights, 8-bit and float32 values."""
    generator = np.random.default_rng(0)

    def floats(*shape: int) -> npt.NDArray[Any]:
        return generator.standard_normal(shape).astype(np.float32)

    def signs(*shape: int) -> npt.NDArray[Any]:
        return pack_signs(np.where(generator.random(shape) < 0.5, -1, 1))

    eight_bits = ops.Quantized(type="uint8", scale=0.03125)
    operations = (
        ops.Affine(inputs=(0,), scale="input.scale", bias="input.bias"),  # 1: (2, 9, 8)
        ops.Conv(inputs=(1,), weight="stem.weight", bits=32, out_channels=4, kernel=(3, 3), padding=(1, 1, 1, 1),
                 bias="stem.bias", relu=True, out=eight_bits),  # 2: (4, 9, 8)
        ops.Conv(inputs=(2, 2), weight="block.weight", bits=1, out_channels=4, kernel=(3, 3), padding=(1, 1, 1, 1),
                 groups=2, scale="block.scale", bias="block.bias", relu=True, out=eight_bits),  # 3: (4, 9, 8)
        ops.MaxPool(inputs=(3,), kernel=(2, 2), stride=(2, 2), out=eight_bits),  # 4: (4, 4, 4)
        ops.AvgPool(inputs=(3,), kernel=(3, 2), stride=(2, 2), padding=(0, 0, 0, 0)),  # 5: (4, 4, 4)
        ops.PadChannels(inputs=(4,), before=1, after=2),  # 6: (7, 4, 4)
        ops.Concat(inputs=(5, 6)),  # 7: (11, 4, 4)
        ops.Conv(inputs=(7,), weight="wide.weight", bits=1, out_channels=11, kernel=(1, 3), padding=(0, 1, 0, 1),
                 bias="wide.bias"),  # 8: (11, 4, 4)
        ops.Add(inputs=(7, 8), relu=True),  # 9
        ops.GlobalPool(inputs=(9,)),  # 10: (11,)
        ops.Flatten(inputs=(9,)),  # 11: (176,)
        ops.Dense(inputs=(11,), weight="hidden.weight", bits=1, out_features=5, in_features=176, scale="hidden.scale"),
        ops.Relu(inputs=(12,)),  # 13: (5,)
        ops.Concat(inputs=(10, 13)),  # 14: (16,)
        ops.Dense(inputs=(14,), weight="head.weight", bits=32, out_features=3, in_features=16, bias="head.bias"),
        ops.Softmax(inputs=(15,)),
    )  # fmt: skip
    tensors = {
        "input.scale": floats(2), "input.bias": floats(2), "stem.weight": floats(4, 2, 3, 3), "stem.bias": floats(4),
        "block.weight": signs(4, 2, 3, 3), "block.scale": floats(4), "block.bias": floats(4),
        "wide.weight": signs(11, 11, 1, 3), "wide.bias": floats(11), "hidden.weight": signs(5, 176),
        "hidden.scale": floats(5), "head.weight": floats(3, 16), "head.bias": floats(3),
    }  # fmt: skip
    about = {"made for": "tests of the reader"}
    return Program(input_shape=(2, 9, 8), ops=operations, tensors=tensors, output=16, about=about)


def wide_program() -> Program:
    """A program with enough channels, and few enough bits, for the kernels that sum bytes."""
    generator = np.random.default_rng(0)
    six_bits = ops.Quantized(type="uint6", scale=0.0625)
    shared: dict[str, Any] = {"bits": 1, "relu": True, "out": six_bits, "kernel": (3, 3), "padding": (1, 1, 1, 1)}
    operations = (
        ops.Conv(inputs=(0,), weight="stem", bits=32, out_channels=24, kernel=(1, 1), relu=True, out=six_bits),
        ops.Conv(inputs=(1, 1), weight="same", out_channels=24, **shared),  # 2: (24, 7, 6)
        ops.Conv(inputs=(2,), weight="half", out_channels=32, stride=(2, 2), **shared),  # 3: (32, 4, 3)
        ops.AvgPool(inputs=(2,), kernel=(2, 2), stride=(2, 2), padding=(1, 0, 0, 0)),  # 4: (24, 4, 3)
        ops.PadChannels(inputs=(4,), before=4, after=4),  # 5: (32, 4, 3)
        ops.Add(inputs=(3, 5), out=six_bits),
        ops.Conv(inputs=(6,), weight="point", bits=1, out_channels=16, kernel=(1, 1)),  # 7: (16, 4, 3)
        ops.GlobalPool(inputs=(7,)),
    )
    tensors: dict[str, npt.NDArray[Any]] = {"stem": generator.standard_normal((24, 3, 1, 1)).astype(np.float32)}
    for name, shape in {"same": (24, 24, 3, 3), "half": (32, 24, 3, 3), "point": (16, 32, 1, 1)}.items():
        tensors[name] = pack_signs(np.where(generator.random(shape) < 0.5, -1, 1))
    return Program(input_shape=(3, 7, 6), ops=operations, tensors=tensors, output=8)


def modern_program() -> Program:
    """A small program of version 2 with every operation that came with it, tokens, and several inputs and outputs."""
    generator = np.random.default_rng(0)

    def floats(*shape: int) -> npt.NDArray[Any]:
        return generator.standard_normal(shape).astype(np.float32)

    def signs(*shape: int) -> npt.NDArray[Any]:
        return pack_signs(np.where(generator.random(shape) < 0.5, -1, 1))

    eight_bits = ops.Quantized(type="int8", scale=0.03125)
    one_byte = ops.Quantized(type="int8", scale=1.0)
    operations = (
        ops.Embedding(inputs=(0,), weight="table", rows=9, width=8),  # 2: (6, 8)
        ops.Constant(inputs=(), tensor="token", shape=(1, 8)),  # 3: (1, 8)
        ops.Concat(inputs=(3, 2), axis=0),  # 4: (7, 8)
        ops.Arithmetic(inputs=(4,), function="add", operand="positions", shape=(7, 8)),  # 5: (7, 8)
        ops.Normalize(inputs=(5,), axes=(1,), epsilon=0.0009765625, scale="norm.scale", bias="norm.bias",
                      out=eight_bits),  # 6: (7, 8)
        ops.Dense(inputs=(6,), weight="qkv", bits=1, scale="qkv.scale", out_features=24, in_features=8, blocks=2,
                  block_scale="qkv.blocks"),  # 7: (7, 24)
        ops.Reshape(inputs=(7,), shape=(7, 3, 2, 4)),  # 8
        ops.Transpose(inputs=(8,), axes=(1, 2, 0, 3)),  # 9: (3, 2, 7, 4)
        ops.Slice(inputs=(9,), starts=(0, 0, 0, 0), stops=(1, 2, 7, 4), steps=(1, 1, 1, 1)),  # 10
        ops.Slice(inputs=(9,), starts=(1, 0, 0, 0), stops=(3, 2, 7, 4), steps=(2, 1, 1, 1)),  # 11
        ops.Attention(inputs=(10, 11, 11), scale=0.5, causal=True, mask="mask", mask_shape=(7, 7)),  # 12: (1, 2, 7, 4)
        ops.Matmul(inputs=(12, 12), transpose_second=True, scale=0.5),  # 13: (1, 2, 7, 7)
        ops.Softmax(inputs=(13,), axis=3, log=True),  # 14: (1, 2, 7, 7)
        ops.Reduce(inputs=(14,), function="mean", axes=(0, 1)),  # 15: (7, 7)
        ops.ArgMax(inputs=(15,), axis=1),  # 16: (7,)
        ops.Activation(inputs=(1,), function="elu", numbers=(0.5, 1.0, 2.0), out=eight_bits),  # 17: (4, 5, 6)
        ops.ConvTranspose(inputs=(17,), weight="up", bits=1, out_channels=6, kernel=(3, 3), stride=(2, 2),
                          padding=(1, 1, 1, 1), output_padding=(1, 1), groups=2, bias="up.bias"),  # 18: (6, 10, 12)
        ops.PRelu(inputs=(18,), slope="slope"),  # 19
        ops.Resize(inputs=(19,), size=(5, 7), mode="bilinear", ratios=(2.0, 1.75)),  # 20: (6, 5, 7)
        ops.Resize(inputs=(20,), size=(9, 7), mode="nearest", ratios=(0.5, 1.0)),  # 21: (6, 9, 7)
        ops.Pad(inputs=(21,), before=(0, 1, 2), after=(0, 0, 1), mode="reflect"),  # 22: (6, 10, 10)
        ops.Sign(inputs=(22,), threshold="slope", out=one_byte),  # 23
        ops.AdaptivePool(inputs=(23,), size=(3, 4), function="average"),  # 24: (6, 3, 4)
        ops.AdaptivePool(inputs=(24,), size=(2, 1), function="max"),  # 25: (6, 2, 1)
        ops.Expand(inputs=(25,), shape=(6, 2, 3)),  # 26
        ops.Arithmetic(inputs=(26, 25), function="multiply", relu=True),  # 27: (6, 2, 3)
        ops.Normalize(inputs=(27,), axes=(0, 1, 2), epsilon=0.5, groups=3, per_channel=True, scale="slope"),  # 28
        ops.Activation(inputs=(28,), function="gelu"),  # 29
    )  # fmt: skip
    tensors = {
        "table": floats(9, 8), "token": floats(1, 8), "positions": floats(7, 8), "norm.scale": floats(8),
        "norm.bias": floats(8), "qkv": signs(24, 8), "qkv.scale": floats(24), "qkv.blocks": floats(24, 2),
        "mask": floats(7, 7),
        "up": signs(6, 2, 3, 3), "up.bias": floats(6), "slope": floats(6),
    }  # fmt: skip
    inputs = [Input(shape=(6,), type="int32"), Input(shape=(4, 5, 6))]
    return Program(inputs=inputs, ops=operations, tensors=tensors, outputs=(29, 16, 15))


def functions_program() -> Program:
    """A program of version 2 with every function of one number and of two, on float32 and 8-bit values."""
    eight_bits = ops.Quantized(type="int8", scale=0.03125)
    operations: list[ops.Operation] = []
    for number, (function, (_, count)) in enumerate(activations.FUNCTIONS.items()):
        out = eight_bits if number % 2 else None
        operations.append(
            ops.Activation(inputs=(number // 2,), function=function, numbers=(0.5, 1.0, 2.0)[:count], out=out)
        )
    for number, function in enumerate(arithmetic.FUNCTIONS):
        last = len(operations)
        if number % 2:
            operations.append(ops.Arithmetic(inputs=(last,), function=function, operand="operand", shape=(4, 1)))
        else:
            operations.append(ops.Arithmetic(inputs=(last - 1, last), function=function, relu=True, out=eight_bits))
    tensors = {"operand": np.linspace(-1, 1, 4, dtype=np.float32).reshape(4, 1)}
    return Program(inputs=[Input(shape=(2, 4, 5))], ops=operations, tensors=tensors, outputs=(len(operations), 7))


def modes_program() -> Program:
    """A program of version 2 with every mode of the operations that move, pool and reduce, and the older operations."""
    generator = np.random.default_rng(0)
    eight_bits = ops.Quantized(type="uint8", scale=0.0625)
    operations: list[ops.Operation] = []

    def add(operation: ops.Operation) -> int:
        operations.append(operation)
        return len(operations)

    last = add(ops.Affine(inputs=(0,), scale="four", bias="four", out=eight_bits))  # (4, 7, 6)
    for mode in PAD_MODES:
        last = add(ops.Pad(inputs=(last,), before=(0, 1, 1), after=(0, 0, 1), mode=mode))
    last = add(ops.Conv(inputs=(last,), weight="depthwise", bits=1, out_channels=4, kernel=(3, 3), groups=4))
    for mode in resampling.RESIZE_MODES:
        last = add(ops.Resize(inputs=(last,), size=(6, 5), mode=mode, ratios=(1.5, 0.75)))
    pooled = [ops.MaxPool(inputs=(last,), kernel=(3, 2), stride=(2, 2), padding=(1, 0, 1, 0)),
              ops.AvgPool(inputs=(last,), kernel=(2, 2), stride=(2, 2)),
              *(ops.AdaptivePool(inputs=(last,), size=(3, 2), function=name) for name in resampling.POOLS)]  # fmt: skip
    joined = add(ops.Concat(inputs=tuple(map(add, pooled)), axis=1))  # (4, 12, 2)
    last = add(ops.ConvTranspose(inputs=(joined,), weight="up", bits=32, out_channels=2, kernel=(2, 2), stride=(2, 2)))
    last = add(ops.PadChannels(inputs=(last,), before=1, after=1))  # (4, 24, 4)
    last = add(ops.Relu(inputs=(last,)))
    last = add(ops.Add(inputs=(last, last), out=eight_bits))
    for name in reduction.FUNCTIONS:
        last = add(ops.Reduce(inputs=(last,), function=name, axes=(1,), keep=True))  # (4, 1, 4)
    reduced = last
    scores = add(ops.Matmul(inputs=(joined, joined), transpose_second=True))  # (4, 12, 12)
    mixed = add(ops.Attention(inputs=(joined, joined, joined, scores), scale=0.5))  # (4, 12, 2)
    last = add(ops.Matmul(inputs=(mixed, joined), transpose_first=True, scale=0.25))  # (4, 2, 2)
    last = add(ops.Flatten(inputs=(last,)))  # (16,)
    last = add(ops.Dense(inputs=(last,), weight="head", bits=1, out_features=3, in_features=16))
    add(ops.Softmax(inputs=(last,), log=True))
    add(ops.GlobalPool(inputs=(joined,)))
    tensors: dict[str, npt.NDArray[Any]] = {
        "four": generator.standard_normal(4).astype(np.float32),
        "up": generator.standard_normal((2, 4, 2, 2)).astype(np.float32),
        "depthwise": pack_signs(np.where(generator.random((4, 1, 3, 3)) < 0.5, -1, 1)),
        "head": pack_signs(np.where(generator.random((3, 16)) < 0.5, -1, 1)),
    }
    outputs = (len(operations), len(operations) - 1, reduced)
    return Program(inputs=[Input(shape=(4, 7, 6))], ops=operations, tensors=tensors, outputs=outputs)


def integer_program() -> IntegerProgram:
    """A program in integers alone with every step, both kinds of weights, residuals and pools inside of layers."""
    generator = np.random.default_rng(0)

    def fixed(count: int) -> dict[str, Any]:
        multipliers = generator.integers(-30_000, 30_000, count).astype(np.int16)
        return {"multipliers": multipliers, "offsets": generator.integers(-(2**22), 2**24, count).astype(np.int32)}

    def weights(filters: int, terms: int, bits: int) -> npt.NDArray[Any]:
        if bits == 8:
            return generator.integers(-127, 128, (filters, terms)).astype(np.int8)
        return pack_signs(np.where(generator.random((filters, terms)) < 0.5, -1, 1))

    plain, signed = ops.Quantized(type="uint8", scale=0.0625), ops.Quantized(type="int8", scale=0.03125)
    six_bits = ops.Quantized(type="uint6", scale=0.25)
    window: dict[str, Any] = {"kernel": (3, 3), "padding": (1, 1, 1, 1), "flatten": False}
    listed: list[steps.Step] = [
        steps.Layer(inputs=(0,), out=plain, weight=weights(6, 18, 8), **fixed(6), shift=22, relu=True, **window,
                    pool=(1, 2)),  # 1: (6, 9, 4)
        steps.Layer(inputs=(1,), out=signed, weight=weights(6, 27, 1), **fixed(6), shift=18, relu=False, **window,
                    groups=2),  # 2: (6, 9, 4)
        steps.MaxPool(inputs=(2,), out=signed, kernel=(3, 2), stride=(2, 2), padding=(1, 0, 1, 0)),  # 3: (6, 5, 2)
        steps.Mean(inputs=(2,), out=six_bits, kernel=(3, 2), stride=(2, 2), padding=(1, 0, 1, 0), multiplier=7000,
                   offset=-70_000, shift=15),  # 4: (6, 5, 2)
        steps.Join(inputs=(3, 4), out=plain, before=1, after=3, multipliers=(900, -5000), offsets=(-9999, 88_888),
                   shifts=(10, 12)),  # 5: (16, 5, 2)
        steps.Layer(inputs=(5, 5), out=signed, weight=weights(16, 144, 1), **fixed(16), shift=20, relu=True, **window,
                    residual_multiplier=-20_000),  # 6: (16, 5, 2)
        steps.Add(inputs=(5, 6), out=plain, multipliers=(3000, 7000), offset=-400_000, shift=13, relu=False),  # 7
        steps.Rescale(inputs=(7,), out=signed, **fixed(16), shift=15, relu=True),  # 8
        steps.Rescale(inputs=(8,), out=six_bits, **fixed(1), shift=16, relu=False),  # 9
        steps.Layer(inputs=(9,), out=plain, weight=weights(5, 160, 1), **fixed(5), shift=16, flatten=True, relu=False),
        steps.Layer(inputs=(10,), out=None, weight=weights(3, 5, 8), **fixed(3), shift=3, flatten=True, relu=False),
    ]  # fmt: skip
    about = {"made for": "tests of the reader"}
    return IntegerProgram(input_shape=(2, 9, 8), input_type=signed, steps=listed, output_scale=0.125, about=about)


AnyProgram: TypeAlias = Program | IntegerProgram

SEEDS: tuple[Callable[[], Program], ...]
SEEDS = (sample_program, wide_program, modern_program, functions_program, modes_program)
ALL_SEEDS: tuple[Callable[[], AnyProgram], ...] = (*SEEDS, integer_program)


def random_inputs(program: AnyProgram, seed: int, count: int = 2) -> list[npt.NDArray[Any]]:
    """Numbers for every input; tokens small enough for the table, and now and then one that is not."""
    generator = np.random.default_rng(seed)
    return [
        generator.integers(0, 9 if seed % 7 else 12, (count, *given.shape)).astype(np.int32)
        if given.type == "int32"
        else generator.standard_normal((count, *given.shape)).astype(np.float32)
        for given in program.inputs
    ]


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        position = rng.randrange(len(changed) + 1)
        match rng.randrange(5):
            case 0:
                changed[position : position + 1] = bytes([rng.randrange(256)])
            case 1 if position < len(changed):
                changed[position] ^= 1 << rng.randrange(8)
            case 2:
                del changed[position : position + rng.choice([1, 4, 8, 10**6])]
            case 3:
                changed[position:position] = rng.randbytes(rng.choice([1, 4, 8]))
            case _:
                changed[0:8] = rng.choice([0, 1, 8, 2**24, 2**25, 2**63, 2**64 - 1]).to_bytes(8, "little")
    return bytes(changed)


def places_in(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each place of a JSON document."""
    for key in part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ():
        yield (*path, key)
        yield from places_in(part[key], (*path, key))


@functools.lru_cache(2 * len(ALL_SEEDS))
def _places_in_text(document: str) -> list[tuple[Any, ...]]:
    return list(places_in(json.loads(document)))


def mutate_json(text: str, rng: random.Random, times: int = 1) -> Any:
    """A JSON document with changed places: a nasty value, a value from elsewhere in it, or nothing."""
    document, places = json.loads(text), _places_in_text(text)
    for earlier in range(times):
        if earlier:
            places = list(places_in(document))
        *path, key = rng.choice(places)
        container = functools.reduce(operator.getitem, path, document)
        match rng.randrange(4):
            case 0:
                del container[key]
            case 1:
                container[key] = copy.deepcopy(functools.reduce(operator.getitem, rng.choice(places), document))
            case 2 if isinstance(container, list):
                container.insert(key, copy.deepcopy(container[key]))
            case _:
                container[key] = copy.deepcopy(rng.choice(NASTY))  # a copy, since the next change may be inside of it
    return document


def _split(data: bytes) -> tuple[str, bytes]:
    length = int.from_bytes(data[:8], "little")
    return data[8 : 8 + length].decode(), data[8 + length :]


def _join(header: str, body: bytes) -> bytes:
    text = header.encode()
    return len(text).to_bytes(8, "little") + text + body


def mutate_header(data: bytes, rng: random.Random) -> bytes:
    header, body = _split(data)
    return _join(json.dumps(mutate_json(header, rng)), body)


def mutate_program(data: bytes, rng: random.Random) -> bytes:
    text, body = _split(data)
    header = json.loads(text)
    program = mutate_json(header["__metadata__"]["signwise"], rng, rng.choice([1, 1, 2]))
    header["__metadata__"]["signwise"] = json.dumps(program)
    return _join(json.dumps(header), body)


def mutate_tensors(data: bytes, rng: random.Random) -> bytes:
    header, body = _split(data)
    changed = bytearray(body)
    position = rng.randrange(len(changed) // 4) * 4
    changed[position : position + 4] = np.float32(rng.choice([np.nan, np.inf, -np.inf, 3e38, 1e-45])).tobytes()
    return _join(header, bytes(changed))


def mutant(data: bytes, seed: int) -> bytes:
    """The mutated file for one seed: always the same for the same bytes."""
    rng = random.Random(seed)
    mutations: list[Callable[[bytes, random.Random], bytes]]
    mutations = [mutate_bytes, mutate_header, mutate_program, mutate_program, mutate_program, mutate_tensors]
    return rng.choice(mutations)(data, rng)


def is_small(program: AnyProgram) -> bool:
    sizes = [int(np.prod(shape)) for shape in program.shapes]
    return sum(sizes) < 2**17 and max(sizes) < 2**14


def try_mutants(seeds: range, run: bool) -> tuple[Counter[str], float]:
    """What becomes of the mutants with these seeds, and the longest time that one of them took, in seconds."""
    files = [program().encode() for program in ALL_SEEDS]
    outcomes, slowest = Counter[str](), 0.0
    for seed in seeds:
        started = time.perf_counter()
        try:
            program = decode_any(mutant(files[seed % len(files)], seed))
        except FormatError:
            outcomes["refused"] += 1
        else:
            outcomes["loaded"] += 1
            if run and is_small(program):
                outcomes["run"] += 1
                if isinstance(program, IntegerProgram):
                    to_c(program)
                try:
                    with np.errstate(all="ignore"):
                        program.session(threads=1 + seed // 2 % 2)(*random_inputs(program, seed))
                except SignwiseError as error:
                    if "an embedding has rows" not in str(error):  # the one thing that only the numbers can tell
                        raise
        slowest = max(slowest, time.perf_counter() - started)
    return outcomes, slowest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", action="store_true", help="also run the mutants that load")
    parser.add_argument("--jobs", type=int, default=2, help="processes at the same time (default: 2)")
    parser.add_argument("--out", type=Path, help="where the counts go, as JSON")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    end = arguments.seed + arguments.count
    parts = [range(first, min(first + 1000, end)) for first in range(arguments.seed, end, 1000)]
    outcomes, slowest = Counter[str](), 0.0
    # Each process starts anew, so that a sanitizer's report is one process's own; a process that dies raises here.
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        for part, (counted, longest) in zip(
            parts, pool.map(try_mutants, parts, itertools.repeat(arguments.run)), strict=True
        ):
            outcomes += counted
            slowest = max(slowest, longest)
            if part.stop % 20_000 and part.stop != end:
                continue
            shown = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
            done = part.stop - arguments.seed
            print(f"{done} files: {shown}; slowest {slowest:.3f} s", flush=True)
            if arguments.out:  # a fuzzer that is stopped leaves what it has done
                counts: dict[str, float] = {"files": done, **outcomes, "slowest_seconds": round(slowest, 3)}
                arguments.out.write_text(json.dumps(counts | {"seconds": round(time.perf_counter() - begun)}))


if __name__ == "__main__":
    main()
