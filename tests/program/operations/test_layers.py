from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from signwise.errors import FormatError, SignwiseError
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.operations import pack_signs, unpack_signs

Floats = npt.NDArray[np.float32]


def random(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def signs(seed: int, *shape: int) -> Floats:
    return np.where(random(seed, *shape) > 0, 1, -1).astype(np.float32)


def run(layer: ops.Weighted, examples: Floats, tensors: dict[str, npt.NDArray[Any]]) -> Floats:
    program = Program(input_shape=examples.shape[1:], ops=(layer,), tensors=tensors, output=1)
    found = program.reference(examples)
    assert found.dtype == np.float32 and found.shape[1:] == program.output_shape
    return found


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
def test_a_convolution_equals_pytorch(
    seed: int, groups: int, size: ops.Pair, kernel: ops.Pair, stride: ops.Pair, dilation: ops.Pair,
    padding: ops.Padding, bits: int,
) -> None:  # fmt: skip
    images = random(seed, 2, 3 * groups, *size)
    weight = (signs if bits == 1 else random)(seed + 1, 2 * groups, 3, *kernel)
    scale, bias = random(seed + 2, 2 * groups), random(seed + 3, 2 * groups)
    top, left, bottom, right = padding
    padded = F.pad(torch.tensor(images), (left, right, top, bottom))
    total = F.conv2d(padded, torch.tensor(weight), None, stride, 0, dilation, groups)
    expected = torch.relu(total * torch.tensor(scale)[:, None, None] + torch.tensor(bias)[:, None, None])

    convolution = ops.Conv(
        inputs=(0,), weight="weight", bits=bits, out_channels=2 * groups, kernel=kernel, stride=stride, padding=padding,
        dilation=dilation, groups=groups, scale="scale", bias="bias", relu=True,
    )  # fmt: skip
    tensors = {"weight": pack_signs(weight) if bits == 1 else weight, "scale": scale, "bias": bias}
    np.testing.assert_allclose(run(convolution, images, tensors), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bits", [1, 32])
def test_a_dense_layer_with_a_residual_equals_pytorch(bits: int) -> None:
    examples, bias = random(0, 3, 13), random(2, 13)
    weight = (signs if bits == 1 else random)(1, 13, 13)
    dense = ops.Dense(
        inputs=(0, 0), weight="weight", bits=bits, out_features=13, in_features=13, bias="bias", relu=True
    )
    found = run(dense, examples, {"weight": pack_signs(weight) if bits == 1 else weight, "bias": bias})
    np.testing.assert_allclose(found, np.maximum(examples @ weight.T + bias + examples, 0), rtol=1e-5, atol=1e-5)


def test_a_dense_layer_multiplies_every_block_of_inputs_by_its_scale() -> None:
    examples, weight, scales = random(0, 3, 12), signs(1, 5, 12), random(2, 5, 3)
    dense = ops.Dense(
        inputs=(0,), weight="weight", bits=1, out_features=5, in_features=12, blocks=3, block_scale="scales"
    )
    tensors: dict[str, npt.NDArray[Any]] = {"weight": pack_signs(weight), "scales": scales}
    expected = np.zeros((3, 5), np.float32)
    for block in range(3):
        part = slice(4 * block, 4 * block + 4)
        expected += examples[:, part] @ weight[:, part].T * scales[:, block]
    np.testing.assert_allclose(run(dense, examples, tensors), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(examples @ dense.float_weight(tensors, (12,)).T, expected, rtol=1e-5, atol=1e-5)
    assert dense.version([(12,)]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": 5, "block_scale": "s"}, "in_features must be a multiple of blocks, got 12 and 5"),
        ({"blocks": 0, "block_scale": "s"}, "blocks must be an integer from 1 to 12"),
        ({"blocks": 3}, "block_scale belongs to several blocks"),
        ({"block_scale": "s"}, "block_scale belongs to several blocks"),
        ({"blocks": 3, "block_scale": "s", "bits": 32}, "blocks need weights of 1 bit"),
    ],
)
def test_impossible_blocks_are_refused(options: dict[str, Any], message: str) -> None:
    plain: dict[str, Any] = {"inputs": (0,), "weight": "w", "bits": 1, "out_features": 5, "in_features": 12}
    with pytest.raises(FormatError, match=message):
        ops.Dense(**{**plain, **options})


def test_a_binary_layer_adds_eight_bit_values_exactly() -> None:
    numbers = np.random.default_rng(0).integers(0, 256, (2, 5, 6, 6)).astype(np.float32)
    weight = signs(1, 4, 5, 3, 3)
    operations = (
        ops.Affine(inputs=(0,), scale="one", bias="zero", out=ops.Quantized(type="uint8", scale=1.0)),
        ops.Conv(inputs=(1,), weight="weight", bits=1, out_channels=4, kernel=(3, 3)),
    )
    tensors: dict[str, npt.NDArray[Any]] = {
        "one": np.ones(5, np.float32),
        "zero": np.zeros(5, np.float32),
        "weight": pack_signs(weight),
    }
    program = Program(input_shape=(5, 6, 6), ops=operations, tensors=tensors, output=2)
    expected = F.conv2d(torch.tensor(numbers).double(), torch.tensor(weight).double())
    np.testing.assert_array_equal(program.reference(numbers), expected)


def test_weights_have_pytorchs_shape_and_rows_of_whole_bytes() -> None:
    layer = ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=4, kernel=(3, 2), groups=2, scale="s")
    assert layer.weight_shape((6, 8, 8)) == (4, 3, 3, 2) and layer.terms((6, 8, 8)) == 18
    assert [(spec.attribute, spec.shape) for spec in layer.tensors([(6, 8, 8)])] == [
        ("weight", (4, 3)),
        ("scale", (4,)),
    ]


def test_float_weights_are_signs_times_the_scale_of_their_filter() -> None:
    weight, scale = signs(0, 4, 3, 2, 2), random(1, 4)
    layer = ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=4, kernel=(2, 2), scale="s")
    found = layer.float_weight({"w": pack_signs(weight), "s": scale}, (3, 5, 5))
    np.testing.assert_array_equal(found, weight * scale[:, None, None, None])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"stride": (2, 2)}, True),
        ({"stride": (2, 1)}, False),
        ({"dilation": (2, 2)}, False),
        ({"kernel": (1, 1)}, False),
        ({"bits": 32}, False),
    ],
)
def test_binary_3x3_convolutions_gain_from_six_bits(options: dict[str, Any], expected: bool) -> None:
    defaults: dict[str, Any] = {"inputs": (0,), "weight": "w", "bits": 1, "out_channels": 4, "kernel": (3, 3)}
    assert ops.Conv(**{**defaults, **options}).gains_from_six_bits is expected


def test_a_binary_dot_product_whose_sum_could_overflow_is_refused() -> None:
    terms = ops.LARGEST_TERMS + 1
    layer = ops.Dense(inputs=(0,), weight="w", bits=1, out_features=1, in_features=terms)
    with pytest.raises(FormatError, match=f"may have {ops.LARGEST_TERMS} terms, got {terms}"):
        layer.output_shape([(terms,)])
    floats = ops.Dense(inputs=(0,), weight="w", bits=32, out_features=1, in_features=terms)
    assert floats.output_shape([(terms,)]) == (1,)


def test_a_dense_layer_refuses_an_input_of_another_size() -> None:
    layer = ops.Dense(inputs=(0,), weight="w", bits=1, out_features=1, in_features=8)
    with pytest.raises(FormatError, match=r"in_features is 8, but its input has shape \[8, 1, 1\]"):
        layer.output_shape([(8, 1, 1)])


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 5), terms=st.integers(1, 40))
def test_signs_survive_packing(seed: int, rows: int, terms: int) -> None:
    original = np.random.default_rng(seed).choice([-1.0, 1.0], (rows, terms))
    packed = pack_signs(original)
    assert packed.shape == (rows, -(-terms // 8)) and packed.dtype == np.uint8
    np.testing.assert_array_equal(unpack_signs(packed, original.shape), original)
    assert not (packed[:, -1] >> (terms % 8 or 8)).any(), "pad bits are zero"


@pytest.mark.parametrize("number", [0.0, 0.5, np.nan, 2.0])
def test_only_signs_can_be_packed(number: float) -> None:
    with pytest.raises(SignwiseError, match="only -1 and \\+1"):
        pack_signs(np.array([[1.0, number]]))
