"""The operations of file version 2 against PyTorch, on values of any rank, and the attributes that each refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from signwise.errors import FormatError, SignwiseError
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.checks import Input
from signwise.program.operations.activations import FUNCTIONS

Array = npt.NDArray[Any]


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(operation: ops.Operation, *inputs: Array, **tensors: Array) -> Array:
    ends = [Input(shape=array.shape[1:], type="int32" if array.dtype == np.int32 else "float32") for array in inputs]
    program = Program(inputs=ends, ops=(operation,), tensors=tensors, outputs=(len(inputs),))
    again = Program.decode(program.encode())
    assert again.encode() == program.encode() and again.version == 2
    found: Array = again.reference(*inputs)
    assert found.shape == (len(inputs[0]), *program.output_shape)
    return found


def equal(found: Array, expected: Tensor) -> None:
    np.testing.assert_allclose(found, expected.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("function", "numbers", "expected"),
    [
        ("clip", (0.0, 6.0), F.relu6),
        ("leaky_relu", (0.125,), lambda x: F.leaky_relu(x, 0.125)),
        ("elu", (0.5, 1.0, 1.0), lambda x: F.elu(x, 0.5)),
        ("elu", (0.5, 1.0, 2.0), lambda x: F.celu(x, 0.5)),
        ("silu", (), F.silu),
        ("gelu", (), F.gelu),
        ("gelu_tanh", (), lambda x: F.gelu(x, approximate="tanh")),
        ("sigmoid", (), torch.sigmoid),
        ("hardsigmoid", (), F.hardsigmoid),
        ("hardswish", (), F.hardswish),
        ("tanh", (), torch.tanh),
        ("softplus", (2.0, 1.5), lambda x: F.softplus(x, 2, 1.5)),
        ("mish", (), F.mish),
        ("abs", (), torch.abs),
        ("exp", (), torch.exp),
        ("log", (), torch.log),
        ("sqrt", (), torch.sqrt),
        ("reciprocal", (), torch.reciprocal),
        ("square", (), torch.square),
        ("negate", (), torch.neg),
        ("sin", (), torch.sin),
        ("cos", (), torch.cos),
        ("rsqrt", (), torch.rsqrt),
        ("erf", (), torch.erf),
        ("floor", (), torch.floor),
    ],
)
def test_an_activation_equals_pytorch(
    function: str, numbers: tuple[float, ...], expected: Callable[[Tensor], Tensor]
) -> None:
    x = 4 * random(0, 3, 5, 4)
    equal(run(ops.Activation(inputs=(0,), function=function, numbers=numbers), x), expected(torch.tensor(x)))


def test_activations_of_huge_numbers_do_not_overflow() -> None:
    x = np.array([[-1e4, 1e4]], np.float32)
    for function in ("sigmoid", "silu", "softplus", "mish", "elu", "gelu", "gelu_tanh"):
        numbers = (1.0,) * FUNCTIONS[function][1]
        assert np.isfinite(run(ops.Activation(inputs=(0,), function=function, numbers=numbers), x)).all(), function


def test_prelu_and_sign_work_per_channel() -> None:
    x, slope = random(0, 2, 3, 4), random(1, 3)
    equal(run(ops.PRelu(inputs=(0,), slope="s"), x, s=slope), F.prelu(torch.tensor(x), torch.tensor(slope)))
    found = run(ops.Sign(inputs=(0,), threshold="t"), x, t=slope)
    np.testing.assert_array_equal(found, np.where(x > slope[:, None], 1, -1))
    np.testing.assert_array_equal(run(ops.Sign(inputs=(0,)), np.array([[0.0, 0.5]], np.float32)), [[-1, 1]])


@pytest.mark.parametrize("function", ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power"])
@pytest.mark.parametrize(("first", "second"), [((8, 1, 1), (8, 3, 2)), ((5, 4), (4,)), ((), (3,)), ((2, 3), (2, 3))])
def test_arithmetic_broadcasts_like_numpy(function: str, first: Any, second: Any) -> None:
    a, b = np.abs(random(0, 2, *first)) + 0.5, random(1, 2, *second)
    apply: Any = getattr(np, function)
    expected = torch.tensor(np.stack([apply(a[0], b[0]), apply(a[1], b[1])]))
    equal(run(ops.Arithmetic(inputs=(0, 1), function=function), a, b), expected)
    held: dict[str, Any] = {"function": function, "operand": "b", "shape": b.shape[1:]}
    equal(run(ops.Arithmetic(inputs=(0,), **held), a[:1], b=b[0]), expected[:1])
    held = {"function": function, "operand": "a", "shape": a.shape[1:], "swapped": True, "relu": True}
    equal(run(ops.Arithmetic(inputs=(0,), **held), b[:1], a=a[0]), expected[:1].relu())


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), (True, True)])
def test_matmul_transposes_scales_and_broadcasts(flags: tuple[bool, bool]) -> None:
    a, b = random(0, 2, 3, 4, 5), random(1, 2, 5, 6)
    expected = torch.tensor(a) @ torch.tensor(b)[:, None] * 0.5
    a = a.swapaxes(-1, -2) if flags[0] else a
    b = b.swapaxes(-1, -2) if flags[1] else b
    product = ops.Matmul(inputs=(0, 1), transpose_first=flags[0], transpose_second=flags[1], scale=0.5)
    equal(run(product, a, b), expected)


@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_equals_pytorch(heads: int, causal: bool) -> None:
    q, k, v = random(0, 2, 4, 5, 8), random(1, 2, heads, 5, 8), random(2, 2, heads, 5, 6)
    tensors = [torch.tensor(array) for array in (q, k, v)]
    attention: Any = F.scaled_dot_product_attention
    expected = attention(*tensors, is_causal=causal, scale=0.25, enable_gqa=True)
    equal(run(ops.Attention(inputs=(0, 1, 2), scale=0.25, causal=causal), q, k, v), expected)


def test_attention_adds_a_mask_that_is_a_tensor_or_a_value() -> None:
    q, k, v, mask = random(0, 2, 4, 5, 8), random(1, 2, 4, 7, 8), random(2, 2, 4, 7, 8), random(3, 2, 1, 5, 7)
    tensors = [torch.tensor(array) for array in (q, k, v)]
    attention: Any = F.scaled_dot_product_attention
    expected = attention(*tensors, torch.tensor(mask), scale=0.5)
    equal(run(ops.Attention(inputs=(0, 1, 2, 3), scale=0.5), q, k, v, mask), expected)
    expected = attention(*tensors, torch.tensor(mask[0]), scale=0.5)
    equal(run(ops.Attention(inputs=(0, 1, 2), scale=0.5, mask="m", mask_shape=(1, 5, 7)), q, k, v, m=mask[0]), expected)


def test_an_embedding_looks_up_rows_and_refuses_others() -> None:
    table = random(0, 7, 3)
    layer = ops.Embedding(inputs=(0,), weight="w", rows=7, width=3)
    tokens = np.array([[0, 6, 2], [1, 1, 5]], np.int32)
    np.testing.assert_array_equal(run(layer, tokens, w=table), table[tokens])
    with pytest.raises(SignwiseError, match="token 7 is not a row of 'w', which has 7"):
        run(layer, tokens + 1, w=table)


def test_norms_equal_pytorch() -> None:
    x = 3 * random(0, 2, 6, 4, 5) + 1
    t, scale, bias = torch.tensor(x), random(1, 6), random(2, 6)
    channels: dict[str, Any] = {"scale": "s", "bias": "b", "per_channel": True, "epsilon": 0.125}
    weights = torch.tensor(scale), torch.tensor(bias)
    groups = run(ops.Normalize(inputs=(0,), axes=(0, 1, 2), groups=3, **channels), x, s=scale, b=bias)
    equal(groups, F.group_norm(t, 3, *weights, 0.125))
    instances = run(ops.Normalize(inputs=(0,), axes=(1, 2), **channels), x, s=scale, b=bias)
    equal(instances, F.instance_norm(t, None, None, *weights, eps=0.125))
    scale, bias = random(1, 4, 5), random(2, 4, 5)
    layer = run(ops.Normalize(inputs=(0,), axes=(1, 2), epsilon=0.5, scale="s", bias="b"), x, s=scale, b=bias)
    equal(layer, F.layer_norm(t, (4, 5), torch.tensor(scale), torch.tensor(bias), 0.5))
    rms = run(ops.Normalize(inputs=(0,), axes=(2,), epsilon=0.5, scale="s", centered=False), x, s=scale[0])
    equal(rms, F.rms_norm(t, (5,), torch.tensor(scale[0]), 0.5))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_works_along_any_axis(axis: int) -> None:
    x = 9 * random(0, 2, 3, 4, 5)
    if axis:
        equal(run(ops.Softmax(inputs=(0,), axis=axis), x), torch.tensor(x).softmax(axis + 1))
    equal(run(ops.Softmax(inputs=(0,), axis=axis, log=True), x), torch.tensor(x).log_softmax(axis + 1))


def test_moves_equal_pytorch() -> None:
    x = random(0, 2, 3, 4, 5)
    t = torch.tensor(x)
    equal(run(ops.Transpose(inputs=(0,), axes=(2, 0, 1)), x), t.permute(0, 3, 1, 2))
    equal(run(ops.Reshape(inputs=(0,), shape=(2, 30)), x), t.reshape(2, 2, 30))
    equal(run(ops.Reshape(inputs=(0,), shape=()), x[:, :1, :1, 0]), t[:, 0, 0, 0])
    part = ops.Slice(inputs=(0,), starts=(1, 0, 2), stops=(3, 4, 5), steps=(1, 2, 2))
    equal(run(part, x), t[:, 1:, ::2, 2::2])
    equal(run(ops.Expand(inputs=(0,), shape=(6, 3, 4, 5)), x), t[:, None].expand(2, 6, 3, 4, 5))
    equal(run(ops.Concat(inputs=(0, 1), axis=2), x, x[..., :2]), torch.cat([t, t[..., :2]], 3))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_equals_pytorch(mode: str) -> None:
    x = random(0, 2, 3, 4, 5)
    value = 1.5 if mode == "constant" else 0.0
    operation = ops.Pad(inputs=(0,), before=(0, 2, 1), after=(0, 0, 3), mode=mode, value=value)
    equal(run(operation, x), F.pad(torch.tensor(x), (1, 3, 2, 0), mode=mode, value=value or None))
    assert run(operation, x[:0]).shape == (0, 3, 6, 9)


@pytest.mark.parametrize("size", [(8, 10), (7, 3), (4, 17), (1, 1)])
def test_resizing_equals_pytorch(size: tuple[int, int]) -> None:
    x = random(0, 2, 3, 4, 5)
    t = torch.tensor(x)
    ratios = (float(np.float32(4 / size[0])), float(np.float32(5 / size[1])))
    equal(run(ops.Resize(inputs=(0,), size=size, mode="nearest", ratios=ratios), x), F.interpolate(t, size))
    found = run(ops.Resize(inputs=(0,), size=size, mode="bilinear", ratios=ratios), x)
    equal(found, F.interpolate(t, size, mode="bilinear"))
    corners = [float(np.float32((i - 1) / (o - 1))) if o > 1 else 0.0 for i, o in zip((4, 5), size, strict=True)]
    found = run(ops.Resize(inputs=(0,), size=size, mode="bilinear_aligned", ratios=(corners[0], corners[1])), x)
    equal(found, F.interpolate(t, size, mode="bilinear", align_corners=True))


@pytest.mark.parametrize("size", [(3, 2), (5, 7), (1, 1), (9, 4)])
def test_adaptive_pools_equal_pytorch(size: tuple[int, int]) -> None:
    x = random(0, 2, 3, 5, 7)
    average = run(ops.AdaptivePool(inputs=(0,), size=size, function="average"), x)
    equal(average, F.adaptive_avg_pool2d(torch.tensor(x), size))
    largest = run(ops.AdaptivePool(inputs=(0,), size=size, function="max"), x)
    equal(largest, F.adaptive_max_pool2d(torch.tensor(x), size))


def test_reductions_equal_pytorch() -> None:
    x = random(0, 2, 3, 4, 5)
    t = torch.tensor(x)
    functions: dict[str, Any] = {"mean": t.mean, "sum": t.sum, "max": t.amax, "min": t.amin}
    for function, expected in functions.items():
        equal(run(ops.Reduce(inputs=(0,), function=function, axes=(0, 2)), x), expected((1, 3)))
        equal(run(ops.Reduce(inputs=(0,), function=function, axes=(1,), keep=True), x), expected(2, keepdim=True))
    found = run(ops.ArgMax(inputs=(0,), axis=1), x)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, t.argmax(2))


@pytest.mark.parametrize("bits", [1, 32])
@pytest.mark.parametrize(
    ("stride", "padding", "extra", "dilation", "groups"),
    [((2, 2), 1, (1, 1), (1, 1), 1), ((1, 3), 0, (0, 2), (2, 1), 2), ((2, 1), 2, (0, 0), (1, 1), 3)],
)
def test_a_transposed_convolution_equals_pytorch(
    bits: int, stride: Any, padding: int, extra: Any, dilation: Any, groups: int
) -> None:
    x, weight, bias = random(0, 2, 6, 5, 4), random(1, 6, 4, 3, 3), random(2, 4 * groups)
    if bits == 1:
        weight = np.where(weight > 0, 1, -1).astype(np.float32)
    expected = F.conv_transpose2d(
        torch.tensor(x), torch.tensor(weight), torch.tensor(bias), stride, padding, extra, groups, dilation
    )
    # (in, out / groups, kh, kw) -> (out, in / groups, kh, kw)
    rows = weight.reshape(groups, 6 // groups, 4, 3, 3).swapaxes(1, 2).reshape(4 * groups, -1, 3, 3)
    layer = ops.ConvTranspose(
        inputs=(0,), weight="w", bits=bits, bias="b", out_channels=4 * groups, kernel=(3, 3), stride=stride,
        padding=(padding,) * 4, output_padding=extra, dilation=dilation, groups=groups,
    )  # fmt: skip
    equal(run(layer, x, w=ops.pack_signs(rows) if bits == 1 else rows, b=bias), expected)


def test_a_dense_layer_works_along_the_last_dimension_and_adds_a_residual() -> None:
    x, weight, scale, residual = random(0, 2, 3, 4, 5), random(1, 6, 5), random(2, 6), random(3, 2, 3, 4, 6)
    layer = ops.Dense(inputs=(0, 1), weight="w", bits=32, scale="s", in_features=5, out_features=6, relu=True)
    expected = (F.linear(torch.tensor(x), torch.tensor(weight)) * torch.tensor(scale) + torch.tensor(residual)).relu()
    equal(run(layer, x, residual, w=weight, s=scale), expected)


def test_a_constant_is_the_same_for_every_example() -> None:
    table = random(0, 2, 3)
    program = Program(
        input_shape=(1, 3), ops=(ops.Constant(inputs=(), tensor="t", shape=(2, 3)), ops.Concat(inputs=(1, 0))),
        tensors={"t": table}, output=2,
    )  # fmt: skip
    x = random(1, 4, 1, 3)
    np.testing.assert_array_equal(program.reference(x), np.concatenate([np.broadcast_to(table, (4, 2, 3)), x], 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ops.Activation(inputs=(0,), function="relu9"), "function must be one of clip, leaky_relu"),
        (lambda: ops.Activation(inputs=(0,), function="clip", numbers=(1.0,)), "clip takes 2 numbers"),
        (lambda: ops.Activation(inputs=(0,), function="clip", numbers=(1.0, 0.0)), "lower limit first"),
        (lambda: ops.Activation(inputs=(0,), function="leaky_relu", numbers=(0.1,)), "exactly a float32, got 0.1"),
        (lambda: ops.Activation(inputs=(0,), function="leaky_relu", numbers=(float("inf"),)), "a finite number"),
        (lambda: ops.Arithmetic(inputs=(0,), function="add"), "two values, or one value and an operand"),
        (lambda: ops.Arithmetic(inputs=(0, 1), function="add", swapped=True), "swapped belongs to an operand"),
        (lambda: ops.Transpose(inputs=(0,), axes=(0, 0)), "every dimension once"),
        (lambda: ops.Reshape(inputs=(0,), shape=(0,)), "shape must be 0 to 6 integers from 1"),
        (lambda: ops.Reshape(inputs=(0,), shape=(1,) * 7), "shape must be 0 to 6 integers"),
        (lambda: ops.Slice(inputs=(0,), starts=(2,), stops=(2,), steps=(1,)), "must lie below stops"),
        (lambda: ops.Slice(inputs=(0,), starts=(0,), stops=(2,), steps=(0,)), "steps must be 1 to 6 integers from 1"),
        (lambda: ops.Pad(inputs=(0,), before=(1,), after=(1,), mode="mirror"), "mode must be one of constant, reflect"),
        (lambda: ops.Reduce(inputs=(0,), function="max", axes=(1, 0)), "axes must rise"),
        (lambda: ops.Normalize(inputs=(0,), axes=(0,), epsilon=-1.0), "epsilon must not be negative"),
        (lambda: ops.Normalize(inputs=(0,), axes=(0,), epsilon=0.5, groups=2), "scale and bias per channel"),
        (lambda: ops.Attention(inputs=(0, 0, 0), scale=1.0, mask="m"), "a mask tensor with its shape"),
        (lambda: ops.Resize(inputs=(0,), size=(1, 1), mode="nearest", ratios=(1.0, -1.0)), "ratios must lie from 0"),
        (lambda: ops.ArgMax(inputs=(0,), axis=0, out=ops.Quantized(type="int8", scale=1.0)), "out must be null"),
    ],
)  # fmt: skip
def test_attributes_that_make_no_sense_are_refused(make: Callable[[], ops.Operation], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        make()


@pytest.mark.parametrize(
    ("operation", "shapes", "message"),
    [
        (ops.Arithmetic(inputs=(0, 1), function="add"), [(2, 3), (4, 3)], "do not broadcast"),
        (ops.Matmul(inputs=(0, 1)), [(2, 3), (2, 3)], "rows of 3 numbers by columns of 2"),
        (ops.Matmul(inputs=(0, 1)), [(3,), (3, 3)], "needs two matrices"),
        (ops.Attention(inputs=(0, 1, 2), scale=1.0), [(4, 5, 8), (3, 5, 8), (3, 5, 8)], "do not fit"),
        (ops.Attention(inputs=(0, 1, 2, 3), scale=1.0), [(5, 8), (5, 8), (5, 8), (4, 4)], "do not broadcast"),
        (ops.Normalize(inputs=(0,), axes=(2,), epsilon=0.5), [(3, 4)], "axis 2 is beyond"),
        (ops.Normalize(inputs=(0,), axes=(0, 1), epsilon=0.5, groups=2, per_channel=True), [(3, 4)], "2 groups over"),
        (ops.Transpose(inputs=(0,), axes=(0, 1)), [(3,)], "2 axes for an input of shape"),
        (ops.Reshape(inputs=(0,), shape=(5,)), [(2, 3)], "does not hold the numbers"),
        (ops.Slice(inputs=(0,), starts=(0,), stops=(4,), steps=(1,)), [(3,)], "do not fit an input"),
        (ops.Pad(inputs=(0,), before=(3,), after=(0,), mode="reflect"), [(3,)], "reaches beyond a dimension of 3"),
        (ops.Expand(inputs=(0,), shape=(2, 4)), [(3,)], "do not broadcast"),
        (ops.Affine(inputs=(0,), scale="s", bias="b"), [()], "needs channels"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(operation: ops.Operation, shapes: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        operation.output_shape(shapes)


def test_whole_numbers_are_read_by_embeddings_and_moves_alone() -> None:
    tokens = Input(shape=(4,), type="int32")
    with pytest.raises(FormatError, match=r"operation 0 \(relu\): reads a value of whole numbers"):
        Program(inputs=[tokens], ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
    embedding = ops.Embedding(inputs=(0,), weight="w", rows=2, width=1)
    with pytest.raises(FormatError, match="looks up whole numbers"):
        Program(input_shape=(4,), ops=(embedding,), tensors={"w": random(0, 2, 1)}, output=1)
    moved = Program(inputs=[tokens], ops=(ops.Reshape(inputs=(0,), shape=(2, 2)),), tensors={}, output=1)
    found = moved.reference(np.array([[1, 2, 3, 2**31 - 1]]))
    assert found.dtype == np.int32 and found.tolist() == [[[1, 2], [3, 2**31 - 1]]]
