"""Integer programs: their rounding, and how near they stay to the programs that they come from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import signwise as sw
from signwise.errors import SignwiseError
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.integers.planner import fixed
from signwise.program.integers.steps import scaled


def applied(factor: float, bias: float, zero: int, sums: list[int]) -> list[int]:
    """The fixed-point results for some sums of one channel."""
    (multipliers,), offsets, shift = fixed([np.array([factor])], np.array([bias]), [np.array([zero])])
    found: list[int] = scaled(np.array(sums), multipliers, offsets, shift).tolist()
    return found


@given(
    factor=st.floats(1e-4, 4), bias=st.floats(-300, 300), zero=st.integers(0, 10_000), total=st.integers(-2000, 2000)
)
def test_the_fixed_point_result_is_the_real_one_rounded_within_a_tenth_of_a_step(
    factor: float, bias: float, zero: int, total: int
) -> None:
    (found,) = applied(factor, bias, zero, [total + zero])
    # The multiplier has 15 bits: its error grows with the sum.
    assert abs(found - (factor * total + bias)) <= 0.5 + 0.1 + abs(factor * total) / 2**14


def test_halves_round_up_on_both_sides_of_zero() -> None:
    assert applied(0.5, 0.0, 0, [-3, -2, -1, 0, 1, 2, 3]) == [-1, -1, 0, 0, 1, 1, 2]


def test_multipliers_fit_16_bits_and_offsets_32() -> None:
    made = fixed([np.array([1e-5, 3.0])], np.array([1e4, -1e4]), [np.array([5000, -5000])])
    assert made.multipliers[0].dtype == np.int16 and made.offsets.dtype == np.int32
    for factor, bias in ((1e6, 0.0), (1.0, 1e30)):
        with pytest.raises(SignwiseError, match="too much for multipliers of 16 bits"):
            fixed([np.array([factor])], np.array([bias]), [np.array([0])])


@pytest.mark.slow
def test_lenet5_in_integers_is_as_good_as_the_8_bit_program() -> None:
    data, program = sw.datasets.load("mnist"), Program.load("lenet5-mnist-1bit")
    integers = program.to_integers(data.train_images[:64])
    images, labels = data.test_images[:1000], data.test_labels[:1000]
    assert abs(integers.error(images, labels) - program.error(images, labels)) <= 0.002
    scores, expected = integers.run(images[:100]) * integers.output_scale, program(images[:100])
    assert np.abs(scores - expected).max() < 0.03 * np.abs(expected).max()


def test_the_types_of_a_quantized_program_stay() -> None:
    data = sw.datasets.load("mnist").train_images[:16]
    program = Program.load("lenet5-mnist-1bit").quantize(data)
    layers = [operation for operation in program.ops if isinstance(operation, ops.Conv | ops.Dense)]
    own = {layer.out for layer in layers if layer.out is not None}
    assert own and own <= {step.out for step in program.to_integers(data).steps}


def test_the_text_about_a_program_stays_and_its_error_is_not_that_of_the_integers() -> None:
    about = Program.load("lenet5-mnist-1bit").to_integers(np.zeros((3, 1, 28, 28))).about
    assert about["dataset"] == "mnist" and about["integers"] == "scales chosen on 3 examples"
    assert "error" not in about and about["error before integers"].endswith("of the test images")


def test_what_has_no_integer_form_is_named() -> None:
    relu = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
    with pytest.raises(SignwiseError, match="outputs come from a convolution or dense layer"):
        relu.to_integers(np.ones((1, 3)))
    dense = ops.Dense(inputs=(1,), weight="w", bits=32, out_features=2, in_features=3)
    odd = Program(
        input_shape=(3,), ops=(ops.Softmax(inputs=(0,)), dense), tensors={"w": np.ones((2, 3), np.float32)}, output=2
    )
    with pytest.raises(SignwiseError, match=r"operation 1 \(softmax\) has no integer form"):
        odd.to_integers(np.ones((1, 3)))
    with pytest.raises(SignwiseError, match="at least one example"):
        odd.to_integers(np.ones((0, 3)))
