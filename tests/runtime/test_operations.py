"""Every operation of file version 2: the native library against the numpy definition, on every instruction set."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from signwise.errors import SignwiseError
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.checks import Input
from signwise.program.operations import Quantized
from signwise.program.operations.activations import FUNCTIONS
from signwise.runtime import native

pytestmark = pytest.mark.skipif(not native.available_isas(), reason="needs the native library")

random = np.random.default_rng(0)


def floats(*shape: int) -> npt.NDArray[np.float32]:
    return random.normal(size=shape).astype(np.float32)


def bits(rows: int, terms: int) -> npt.NDArray[np.uint8]:
    return ops.pack_signs(random.choice([-1, 1], size=(rows, terms)))


NUMBERS = {"clip": (-0.5, 0.75), "leaky_relu": (0.125,), "elu": (1.5, 1.25, 0.75), "softplus": (2.0, 5.0)}
BYTES = Quantized(type="int8", scale=0.0625)
TENSORS: dict[str, npt.NDArray[Any]] = {
    "slope": floats(6), "table": floats(5, 1), "layer": floats(5, 7), "channel": floats(6), "row": floats(7),
    "mask": floats(4, 4), "words": floats(11, 9), "filters": floats(8, 6, 3, 2), "signs": bits(8, 36),
    "grouped": bits(8, 3 * 16), "blocks": bits(70, 390), "scales": floats(70, 3), "seventy": floats(70),
    "dense": bits(10, 7), "wide": floats(10, 7), "ten": floats(10), "eight": floats(8),
}  # fmt: skip
IMAGE = (6, 5, 7)

# The operation, and the shapes of its inputs; a shape beside True is of integers.
CASES: list[tuple[ops.Operation, list[Any]]] = [
    *[
        (ops.Activation(inputs=(0,), function=name, numbers=NUMBERS.get(name, ())), [(3, 50)])
        for name in FUNCTIONS
        if name not in ("log", "sqrt", "rsqrt")
    ],
    (ops.PRelu(inputs=(0,), slope="slope"), [IMAGE]),
    (ops.Sign(inputs=(0,), threshold="slope", out=Quantized(type="int8", scale=1.0)), [IMAGE]),
    *[
        (ops.Arithmetic(inputs=(0, 1), function=name, relu=relu), [(6, 1, 1), IMAGE])
        for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")
        for relu in (False, True)
    ],
    (ops.Arithmetic(inputs=(0,), function="subtract", operand="table", shape=(5, 1), swapped=True), [IMAGE]),
    (ops.Constant(inputs=(), tensor="table", shape=(5, 1)), [(2,)]),
    (ops.Matmul(inputs=(0, 1), transpose_second=True, scale=0.25), [(2, 3, 20, 9), (3, 33, 9)]),
    (ops.Matmul(inputs=(0, 1), transpose_first=True), [(40, 13), (2, 40, 35)]),
    (ops.Normalize(inputs=(0,), axes=(1, 2), epsilon=2**-17, scale="layer", bias="layer"), [IMAGE]),
    (ops.Normalize(inputs=(0,), axes=(2,), epsilon=2**-17, centered=False, scale="row"), [IMAGE]),
    (
        ops.Normalize(
            inputs=(0,), axes=(0, 1, 2), epsilon=2**-17, groups=3, scale="channel", bias="channel", per_channel=True
        ),
        [IMAGE],
    ),
    (ops.Normalize(inputs=(0,), axes=(1, 2), epsilon=2**-17, scale="channel", per_channel=True), [IMAGE]),
    (ops.Transpose(inputs=(0,), axes=(2, 0, 3, 1)), [(3, 4, 5, 6)]),
    (ops.Transpose(inputs=(0,), axes=(1, 0)), [((3, 4), True)]),
    (ops.Reshape(inputs=(0,), shape=(3, 14, 5)), [IMAGE]),
    (ops.Slice(inputs=(0,), starts=(1, 0, 2), stops=(6, 5, 7), steps=(2, 1, 3)), [IMAGE]),
    *[
        (ops.Pad(inputs=(0,), before=(0, 2, 1), after=(0, 1, 3), mode=mode), [IMAGE])
        for mode in ("constant", "reflect", "replicate", "circular")
    ],
    (ops.Pad(inputs=(0,), before=(1, 0, 0), after=(0, 0, 2), value=-1.5), [IMAGE]),
    (ops.Expand(inputs=(0,), shape=(4, 6, 5, 7)), [(6, 1, 7)]),
    (ops.Concat(inputs=(0, 1), axis=2), [IMAGE, (6, 5, 4)]),
    (ops.Resize(inputs=(0,), size=(20, 4), mode="nearest", ratios=(0.25, 1.75)), [IMAGE]),
    (ops.Resize(inputs=(0,), size=(10, 14), mode="bilinear", ratios=(0.5, 0.5)), [IMAGE]),
    (ops.AdaptivePool(inputs=(0,), size=(3, 2), function="average"), [IMAGE]),
    (ops.AdaptivePool(inputs=(0,), size=(3, 2), function="max"), [IMAGE]),
    *[(ops.Reduce(inputs=(0,), function=name, axes=(0, 2)), [IMAGE]) for name in ("mean", "sum", "max", "min")],
    (ops.Reduce(inputs=(0,), function="mean", axes=(1,), keep=True), [IMAGE]),
    (ops.ArgMax(inputs=(0,), axis=1), [IMAGE]),
    (ops.Softmax(inputs=(0,), axis=1), [IMAGE]),
    (ops.Softmax(inputs=(0,), axis=2, log=True), [IMAGE]),
    (ops.Embedding(inputs=(0,), weight="words", rows=11, width=9), [((7,), True)]),
    (ops.Attention(inputs=(0, 1, 2), scale=0.5, causal=True), [(4, 60, 16), (2, 60, 16), (2, 60, 24)]),
    (ops.Attention(inputs=(0, 1, 2), scale=0.5, mask="mask", mask_shape=(4, 4)), [(2, 4, 8)] * 3),
    (ops.Attention(inputs=(0, 1, 2, 3), scale=0.5), [(2, 1, 8), (2, 9, 8), (2, 9, 8), (2, 1, 9)]),
    (
        ops.ConvTranspose(
            inputs=(0,), weight="signs", bits=1, out_channels=8, kernel=(3, 2), stride=(2, 3), padding=(1, 0, 0, 1),
            output_padding=(1, 0), scale="eight", bias="eight",
        ),
        [IMAGE],
    ),
    (
        ops.ConvTranspose(
            inputs=(0,), weight="filters", bits=32, out_channels=8, kernel=(3, 2), dilation=(2, 1), bias="eight",
            relu=True,
        ),
        [IMAGE],
    ),
    (
        ops.ConvTranspose(
            inputs=(0,), weight="grouped", bits=1, out_channels=8, kernel=(4, 4), stride=(2, 2), padding=(1, 1, 1, 1),
            groups=2,
        ),
        [IMAGE],
    ),
    (ops.Dense(inputs=(0,), weight="dense", bits=1, out_features=10, in_features=7, scale="ten", relu=True), [IMAGE]),
    (ops.Dense(inputs=(0,), weight="wide", bits=32, out_features=10, in_features=7, bias="ten"), [IMAGE]),
    *[
        (
            ops.Dense(
                inputs=(0,), weight="blocks", bits=1, out_features=70, in_features=390, blocks=3, block_scale="scales",
                scale="seventy", bias="seventy",
            ),
            [shape],
        )
        for shape in [(390,), (20, 390)]
    ],
]  # fmt: skip


def program_of(operation: ops.Operation, shapes: list[Any], rounded: bool) -> Program:
    """The operation alone or, ``rounded``, with its float32 inputs and its result as 8-bit integers."""
    inputs = [
        Input(shape=shape[0], type="int32") if shape[-1] is True else Input(shape=shape, type="float32")
        for shape in shapes
    ]
    before: list[ops.Operation] = []
    reads = list(operation.inputs)
    if rounded:
        for place, value in enumerate(reads):
            before.append(ops.Relu(inputs=(value,), out=BYTES))
            reads[place] = len(inputs) + len(before) - 1
    attributes = {name: getattr(operation, name) for name in operation.attributes()}
    last = type(operation)(
        inputs=tuple(reads), out=operation.out, **{name: value for name, value in attributes.items() if name != "out"}
    )
    used = {name: TENSORS[name] for name in last.tensor_names.values()}
    return Program(inputs=inputs, ops=[*before, last], tensors=used, outputs=[len(inputs) + len(before)])


def examples_for(program: Program, batch: int) -> list[npt.NDArray[Any]]:
    return [
        random.integers(0, 11, (batch, *given.shape)).astype(np.int32)
        if given.type == "int32"
        else floats(batch, *given.shape)
        for given in program.inputs
    ]


@pytest.mark.parametrize("isa", native.available_isas())
@pytest.mark.parametrize(("operation", "shapes"), CASES, ids=[f"{n}-{case[0].kind}" for n, case in enumerate(CASES)])
def test_the_library_computes_what_the_definition_says(
    monkeypatch: pytest.MonkeyPatch, isa: str, operation: ops.Operation, shapes: list[Any]
) -> None:
    monkeypatch.setenv("SIGNWISE_ISA", isa)
    integers = any(shape[-1] is True for shape in shapes)
    for rounded in (False,) if integers else (False, True):
        program = program_of(operation, shapes, rounded)
        for batch, threads in ((1, 2), (3, 1)):
            given = examples_for(program, batch)
            found = program.session(threads)(*given)
            expected = program.reference(*given)
            assert found.dtype == expected.dtype and found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt"])
def test_functions_of_positive_numbers(name: str) -> None:
    program = Program(
        inputs=[Input(shape=(300,), type="float32")],
        ops=[ops.Activation(inputs=(0,), function=name)],
        tensors={},
        outputs=[1],
    )
    given = np.exp(random.uniform(-80, 80, (2, 300))).astype(np.float32)
    np.testing.assert_allclose(program(given), program.reference(given), rtol=1e-6)


@pytest.mark.parametrize("isa", native.available_isas())
@pytest.mark.parametrize("out", [None, Quantized(type="uint8", scale=0.25)])
@pytest.mark.parametrize("layer", ["lookup", "depthwise", "bytes", "dense"])
def test_a_clipped_layer_equals_the_definition_and_keeps_what_others_read(
    monkeypatch: pytest.MonkeyPatch, isa: str, layer: str, out: Quantized | None
) -> None:
    monkeypatch.setenv("SIGNWISE_ISA", isa)
    tensors: dict[str, npt.NDArray[Any]] = {"one": np.ones(32, np.float32), "zero": np.zeros(32, np.float32)}
    rounded = Quantized(type="int8", scale=1.0) if layer == "bytes" else None
    first = ops.Affine(inputs=(0,), scale="one", bias="zero", out=rounded)
    groups = 32 if layer == "depthwise" else 1
    second: ops.Operation
    if layer == "dense":
        shape: tuple[int, ...] = (32,)
        second = ops.Dense(inputs=(1,), weight="signs", bits=1, out_features=32, in_features=32)
        tensors["signs"] = bits(32, 32)
    else:
        shape = (32, 6, 16)
        square: dict[str, Any] = {"kernel": (3, 3), "padding": (1, 1, 1, 1)}
        second = ops.Conv(inputs=(1,), weight="signs", bits=1, out_channels=32, groups=groups, **square)
        tensors["signs"] = bits(32, 9 * 32 // groups)
    clip = ops.Activation(inputs=(2,), function="clip", numbers=(-1.0, 6.0), out=out)
    again = ops.Activation(inputs=(3,), function="clip", numbers=(0.0, 5.0), out=out)
    for outputs in ((3,), (4,), (2, 3), (4, 3, 2)):
        inputs = [Input(shape=shape, type="float32")]
        program = Program(inputs=inputs, ops=[first, second, clip, again], tensors=tensors, outputs=outputs)
        for batch, threads in ((1, 2), (3, 1)):
            # Whole numbers, so that every sum is exact.
            given = random.integers(-3, 4, (batch, *shape)).astype(np.float32)
            found, expected = program.session(threads)(given), program.reference(given)
            pairs = [(found, expected)] if len(outputs) == 1 else zip(found, expected, strict=True)
            for one, other in pairs:
                np.testing.assert_array_equal(one, other)


def test_several_outputs_may_be_inputs_or_the_same_value() -> None:
    program = Program(
        inputs=[Input(shape=(4,), type="float32"), Input(shape=(3,), type="int32")],
        ops=[ops.Relu(inputs=(0,)), ops.Reshape(inputs=(2,), shape=(2, 2)), ops.ArgMax(inputs=(0,), axis=0)],
        tensors={},
        outputs=[4, 3, 2, 2, 1, 0],
    )
    numbers, integers = floats(5, 4), random.integers(0, 9, (5, 3)).astype(np.int32)
    outputs: Any = program(numbers, integers)
    relu = np.maximum(numbers, 0)
    for found, expected in zip(
        outputs, [numbers.argmax(1), relu.reshape(5, 2, 2), relu, relu, integers, numbers], strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_an_integer_beyond_an_embedding_is_named() -> None:
    operation = ops.Embedding(inputs=(0,), weight="words", rows=11, width=9)
    program = program_of(operation, [((7,), True)], rounded=False)
    given = np.array([[0, 1, 2, 3, 11, 5, 6]], np.int32)
    with pytest.raises(SignwiseError, match="rows 0 to 10, but an input is 11"):
        program(given)
    given[0, 4] = -1
    with pytest.raises(SignwiseError, match="an input is -1"):
        program(given)
