"""Every kind of operation beyond images means the same in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from signwise.export import to_onnx
from signwise.export.onnx_model import NODES
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.checks import Input
from signwise.program.operations import pack_signs
from signwise.program.operations.activations import FUNCTIONS
from signwise.program.operations.arithmetic import FUNCTIONS as ARITHMETIC

Array = npt.NDArray[Any]
GENERATOR = np.random.default_rng(0)


def numbers(*shape: int) -> Array:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def agree(program: Program, *inputs: Array) -> None:
    model = to_onnx(program)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    found = session.run(None, dict(zip(names, inputs, strict=True)))
    expected = program.reference(*inputs)
    for one, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def one(operation: ops.Operation, *shapes: tuple[int, ...], **tensors: Array) -> None:
    """One operation on float32 inputs of these shapes."""
    inputs = [Input(shape=shape) for shape in shapes]
    program = Program(inputs=inputs, ops=(operation,), tensors=tensors, outputs=(len(shapes),))
    agree(program, *(numbers(3, *shape) for shape in shapes))


def test_every_kind_of_operation_has_nodes() -> None:
    assert set(NODES) == set(ops.KINDS.values())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_each_number(function: str) -> None:
    given = {"clip": (-0.5, 1.0), "leaky_relu": (0.25,), "elu": (0.75, 1.5, 2.0), "softplus": (2.0, 1.5)}
    operation = ops.Activation(inputs=(0,), function=function, numbers=given.get(function, ()))
    program = Program(input_shape=(2, 40), ops=(operation,), tensors={}, output=1)
    examples = 3 * numbers(2, 2, 40)
    agree(program, np.abs(examples) + 0.1 if function in ("log", "sqrt", "rsqrt") else examples)


@pytest.mark.parametrize("function", ARITHMETIC)
def test_arithmetic_of_two_values_of_different_ranks(function: str) -> None:
    operation = ops.Arithmetic(inputs=(0, 1), function=function, relu=True)
    program = Program(inputs=[Input(shape=(4, 1, 5)), Input(shape=(3, 5))], ops=(operation,), tensors={}, outputs=(2,))
    agree(program, np.abs(numbers(2, 4, 1, 5)) + 0.5, np.abs(numbers(2, 3, 5)) + 0.5)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("shape", [(4, 1, 1), (5,), (2, 4, 3, 5), ()])
def test_arithmetic_with_a_constant(shape: tuple[int, ...], swapped: bool) -> None:
    operation = ops.Arithmetic(inputs=(0,), function="subtract", operand="c", shape=shape, swapped=swapped)
    one(operation, (4, 3, 5), c=numbers(*shape))


PLAIN: dict[str, tuple[ops.Operation, list[tuple[int, ...]]]] = {
    "concat": (ops.Concat(inputs=(0, 1), axis=1), [(2, 3), (2, 4)]),
    "softmax": (ops.Softmax(inputs=(0,), axis=1), [(2, 3, 4)]),
    "log softmax": (ops.Softmax(inputs=(0,), axis=2, log=True), [(2, 3, 4)]),
    "sign": (ops.Sign(inputs=(0,)), [(2, 3)]),
    "matmul": (ops.Matmul(inputs=(0, 1), scale=0.5), [(2, 3, 4), (4, 5)]),
    "matmul, both transposed": (
        ops.Matmul(inputs=(0, 1), transpose_first=True, transpose_second=True),
        [(2, 4, 3), (2, 5, 4)],
    ),
    "layer norm without scale": (ops.Normalize(inputs=(0,), axes=(1, 2), epsilon=0.125), [(2, 3, 4)]),
    "transpose": (ops.Transpose(inputs=(0,), axes=(2, 0, 1)), [(2, 3, 4)]),
    "reshape": (ops.Reshape(inputs=(0,), shape=(4, 6)), [(2, 3, 4)]),
    "reshape of one number": (ops.Reshape(inputs=(0,), shape=()), [(1, 1)]),
    "slice": (ops.Slice(inputs=(0,), starts=(0, 1), stops=(3, 6), steps=(1, 2)), [(3, 7)]),
    "pad": (ops.Pad(inputs=(0,), before=(0, 1), after=(2, 0), value=0.5), [(3, 4)]),
    "pad, reflect": (ops.Pad(inputs=(0,), before=(0, 2), after=(0, 3), mode="reflect"), [(3, 4)]),
    "pad, replicate": (ops.Pad(inputs=(0,), before=(1, 2), after=(0, 3), mode="replicate"), [(3, 4)]),
    "pad, circular": (ops.Pad(inputs=(0,), before=(1, 2), after=(0, 3), mode="circular"), [(3, 4)]),
    "resize, nearest": (
        ops.Resize(inputs=(0,), size=(7, 3), mode="nearest", ratios=(float(np.float32(5 / 7)), 2.0)),
        [(2, 5, 6)],
    ),
    "resize, bilinear": (ops.Resize(inputs=(0,), size=(7, 3), mode="bilinear", ratios=(0.75, 2.0)), [(2, 5, 6)]),
    "resize, aligned": (ops.Resize(inputs=(0,), size=(9, 3), mode="bilinear_aligned", ratios=(0.5, 2.5)), [(2, 5, 6)]),
    **{
        f"reduce, {function}": (ops.Reduce(inputs=(0,), function=function, axes=(0, 2), keep=keep), [(2, 3, 4)])
        for function, keep in (("mean", True), ("sum", False), ("max", False), ("min", True))
    },
    "adaptive mean": (ops.AdaptivePool(inputs=(0,), size=(3, 4), function="average"), [(2, 7, 6)]),
    "adaptive max": (ops.AdaptivePool(inputs=(0,), size=(3, 8), function="max"), [(2, 7, 6)]),
    "attention": (ops.Attention(inputs=(0, 1, 2), scale=0.5), [(4, 5, 8), (4, 6, 8), (4, 6, 3)]),
    "attention, causal with shared heads": (
        ops.Attention(inputs=(0, 1, 2), scale=0.5, causal=True),
        [(4, 5, 8), (2, 5, 8), (2, 5, 3)],
    ),
    "attention with a mask": (
        ops.Attention(inputs=(0, 1, 2, 3), scale=0.5),
        [(4, 5, 8), (4, 6, 8), (4, 6, 3), (5, 6)],
    ),
    "argmax": (ops.ArgMax(inputs=(0,), axis=1, keep=True), [(2, 9)]),
    "expand": (ops.Expand(inputs=(0,), shape=(5, 3, 4)), [(3, 1)]),
}


@pytest.mark.parametrize(("operation", "shapes"), PLAIN.values(), ids=PLAIN.keys())
def test_an_operation_without_tensors(operation: ops.Operation, shapes: list[tuple[int, ...]]) -> None:
    one(operation, *shapes)


def test_operations_with_tensors() -> None:
    one(ops.PRelu(inputs=(0,), slope="s"), (3, 4, 5), s=numbers(3))
    one(ops.Sign(inputs=(0,), threshold="t"), (3, 4), t=numbers(3))
    one(ops.Attention(inputs=(0, 0, 0), scale=1.0, mask="m", mask_shape=(3, 3)), (2, 3, 4), m=numbers(3, 3))
    one(ops.Affine(inputs=(0,), scale="s", bias="b", relu=True), (3, 2, 2, 2), s=numbers(3), b=numbers(3))
    scaled: dict[str, Any] = {"scale": "s", "bias": "b", "epsilon": 0.0625}
    one(ops.Normalize(inputs=(0,), axes=(1,), centered=False, **scaled), (3, 8), s=numbers(8), b=numbers(8))
    one(
        ops.Normalize(inputs=(0,), axes=(0, 1, 2), groups=2, per_channel=True, **scaled),
        (4, 3, 5), s=numbers(4), b=numbers(4),
    )  # fmt: skip


@pytest.mark.parametrize("bits", [1, 32])
def test_dense_layers_read_sequences(bits: int) -> None:
    weight = pack_signs(GENERATOR.choice([-1, 1], (6, 9))) if bits == 1 else numbers(6, 9)
    layer = ops.Dense(inputs=(0,), weight="w", bits=bits, scale="s", bias="b", relu=True, in_features=9, out_features=6)
    one(layer, (4, 9), w=weight, s=numbers(6), b=numbers(6))


@pytest.mark.parametrize("bits", [1, 32])
def test_transposed_convolutions(bits: int) -> None:
    weight = pack_signs(GENERATOR.choice([-1, 1], (6, 2, 3, 2))) if bits == 1 else numbers(6, 2, 3, 2)
    layer = ops.ConvTranspose(
        inputs=(0,), weight="w", bits=bits, scale="s", bias="b", relu=True, out_channels=6, kernel=(3, 2),
        stride=(2, 3), padding=(1, 0, 1, 1), dilation=(1, 2), groups=2, output_padding=(1, 0),
    )  # fmt: skip
    one(layer, (4, 5, 4), w=weight, s=numbers(6), b=numbers(6))


def test_tokens_go_in_and_a_class_token_joins_them() -> None:
    operations = (
        ops.Embedding(inputs=(0,), weight="e", rows=11, width=4),
        ops.Constant(inputs=(), tensor="c", shape=(1, 4)),
        ops.Concat(inputs=(2, 1), axis=0),
        ops.ArgMax(inputs=(3,), axis=1),
    )
    program = Program(
        inputs=[Input(shape=(5,), type="int32")],
        ops=operations,
        tensors={"e": numbers(11, 4), "c": numbers(1, 4)},
        outputs=(3, 4),
    )
    agree(program, GENERATOR.integers(0, 11, (3, 5)).astype(np.int32))
