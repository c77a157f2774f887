from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signwise.errors import SignwiseError
from signwise.program import operations as ops
from signwise.program import reference
from signwise.program.bits import pack_signs, unpack_signs
from signwise.program.program import Program

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def signs(seed, *shape):
    return np.where(random(seed, *shape) > 0, 1, -1).astype(np.float32)


def run(operations, examples, tensors=None):
    made = Program(input_shape=examples.shape[1:], ops=operations, tensors=tensors or {}, output=len(operations))
    found = reference.run(made, examples)
    assert found.dtype == np.float32 and found.shape[1:] == made.output_shape
    return found


def channels(numbers):
    return torch.tensor(numbers)[:, None, None]


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 5), terms=st.integers(1, 40))
def test_signs_survive_packing(seed, rows, terms):
    original = signs(seed, rows, terms)
    packed = pack_signs(original)
    assert packed.shape == (rows, -(-terms // 8)) and packed.dtype == np.uint8
    np.testing.assert_array_equal(unpack_signs(packed, original.shape), original)
    assert not (packed[:, -1] >> (terms % 8 or 8)).any(), "pad bits are zero"


@pytest.mark.parametrize("number", [0.0, 0.5, np.nan, 2.0])
def test_only_signs_can_be_packed(number):
    with pytest.raises(SignwiseError, match="only -1 and \\+1"):
        pack_signs(np.array([[1.0, number]]))


@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(1, 3),
    size=st.tuples(st.integers(5, 9), st.integers(5, 9)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    bits=st.sampled_from([1, 32]),
)
@settings(max_examples=60, deadline=None)
def test_convolution_equals_pytorch(seed, groups, size, kernel, stride, dilation, padding, bits):
    images = random(seed, 2, 3 * groups, *size)
    weight = (signs if bits == 1 else random)(seed + 1, 2 * groups, 3, *kernel)
    scale, bias = random(seed + 2, 2 * groups), random(seed + 3, 2 * groups)
    top, left, bottom, right = padding
    padded = functional.pad(torch.tensor(images), (left, right, top, bottom))
    total = functional.conv2d(padded, torch.tensor(weight), None, stride, 0, dilation, groups)
    expected = torch.relu(total * channels(scale) + channels(bias))

    convolution = ops.Conv(
        inputs=(0,), weight="weight", bits=bits, out_channels=2 * groups, kernel=kernel, stride=stride, padding=padding,
        dilation=dilation, groups=groups, scale="scale", bias="bias", relu=True,
    )  # fmt: skip
    tensors = {"weight": pack_signs(weight) if bits == 1 else weight, "scale": scale, "bias": bias}
    np.testing.assert_allclose(run((convolution,), images, tensors), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bits", [1, 32])
def test_dense_with_residual_equals_pytorch(bits):
    examples, bias = random(0, 3, 13), random(2, 13)
    weight = (signs if bits == 1 else random)(1, 13, 13)
    dense = ops.Dense(
        inputs=(0, 0), weight="weight", bits=bits, out_features=13, in_features=13, bias="bias", relu=True
    )
    found = run((dense,), examples, {"weight": pack_signs(weight) if bits == 1 else weight, "bias": bias})
    np.testing.assert_allclose(found, np.maximum(examples @ weight.T + bias + examples, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [((2, 2), (2, 2), (0, 0)), ((3, 2), (2, 1), (1, 1))])
def test_pools_equal_pytorch(kernel, stride, padding, count_include_pad):
    images = torch.tensor(random(0, 2, 3, 9, 8))
    window = {"inputs": (0,), "kernel": kernel, "stride": stride, "padding": padding * 2}
    found = run((ops.MaxPool(**window),), images.numpy())
    np.testing.assert_array_equal(found, functional.max_pool2d(images, kernel, stride, padding))
    found = run((ops.AvgPool(**window, count_include_pad=count_include_pad),), images.numpy())
    expected = functional.avg_pool2d(images, kernel, stride, padding, count_include_pad=count_include_pad)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (ops.Relu(inputs=(0,)), torch.relu),
        (ops.Add(inputs=(0, 0), relu=True), lambda x: torch.relu(x + x)),
        (ops.GlobalPool(inputs=(0,)), lambda x: x.mean((2, 3))),
        (ops.PadChannels(inputs=(0,), before=1, after=2), lambda x: functional.pad(x, (0, 0, 0, 0, 1, 2))),
        (ops.Flatten(inputs=(0,)), lambda x: x.flatten(1)),
        (ops.Concat(inputs=(0, 0)), lambda x: torch.cat([x, x], 1)),
    ],
    ids=lambda part: getattr(part, "kind", ""),
)
def test_operations_without_weights_equal_pytorch(operation, expected):
    images = random(0, 2, 3, 4, 5)
    np.testing.assert_allclose(run((operation,), images), expected(torch.tensor(images)), rtol=1e-6)


def test_affine_and_softmax_equal_pytorch():
    vectors, scale, bias = 50 * random(0, 4, 6), random(1, 6), random(2, 6)
    affine = ops.Affine(inputs=(0,), scale="scale", bias="bias", relu=True)
    found = run((affine,), vectors, {"scale": scale, "bias": bias})
    np.testing.assert_allclose(found, np.maximum(vectors * scale + bias, 0), rtol=1e-5, atol=1e-5)
    expected = torch.softmax(torch.tensor(vectors), 1)
    np.testing.assert_allclose(run((ops.Softmax(inputs=(0,)),), vectors), expected, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (ops.Quantized(type="uint8", scale=0.5), [0, 0, 0, 0, 0.5, 1, 1, 127.5]),
        (ops.Quantized(type="int8", scale=0.5), [-64, -1, -0.5, 0, 0.5, 1, 1, 63.5]),
    ],
)
def test_eight_bit_values_round_halves_to_even_and_saturate(kept, expected):
    numbers = np.array([[-1000, -1.1, -0.5, 0.25, 0.5, 0.75, 1.25, 1000]], np.float32)
    affine = ops.Affine(inputs=(0,), scale="one", bias="zero", out=kept)
    tensors = {"one": np.ones(8, np.float32), "zero": np.zeros(8, np.float32)}
    np.testing.assert_array_equal(run((affine,), numbers, tensors)[0], expected)


def test_a_binary_layer_adds_eight_bit_values_exactly():
    numbers = np.random.default_rng(0).integers(0, 256, (2, 5, 6, 6)).astype(np.float32)
    weight = signs(1, 4, 5, 3, 3)
    kept = ops.Quantized(type="uint8", scale=1.0)
    operations = (
        ops.Affine(inputs=(0,), scale="one", bias="zero", out=kept),
        ops.Conv(inputs=(1,), weight="weight", bits=1, out_channels=4, kernel=(3, 3)),
    )
    tensors = {"one": np.ones(5, np.float32), "zero": np.zeros(5, np.float32), "weight": pack_signs(weight)}
    expected = functional.conv2d(torch.tensor(numbers).double(), torch.tensor(weight).double())
    np.testing.assert_array_equal(run(operations, numbers, tensors), expected)


def test_an_empty_batch_gives_an_empty_answer():
    assert run((ops.GlobalPool(inputs=(0,)),), np.zeros((0, 3, 4, 4), np.float32)).shape == (0, 3)


def test_a_program_may_give_back_its_input():
    examples = random(0, 2, 3)
    same = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=0)
    np.testing.assert_array_equal(reference.run(same, examples), examples)
