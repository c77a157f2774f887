from __future__ import annotations

import numpy as np
import pytest

from signwise.program import Program, reference
from signwise.program import operations as ops


def test_every_value_is_given_with_its_number() -> None:
    operations = [ops.Relu(inputs=(0,)), ops.Add(inputs=(0, 1)), ops.Relu(inputs=(2,))]
    examples = np.array([[-1.0, 2.0]], np.float32)
    found = {value: numbers.tolist() for value, numbers in reference.values(operations, {}, [examples])}
    assert found == {0: [[-1, 2]], 1: [[0, 2]], 2: [[-1, 4]], 3: [[0, 4]]}


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (ops.Quantized(type="uint8", scale=0.5), [0, 0, 0, 0, 0.5, 1, 1, 127.5]),
        (ops.Quantized(type="int8", scale=0.5), [-64, -1, -0.5, 0, 0.5, 1, 1, 63.5]),
    ],
)
def test_eight_bit_values_round_halves_to_even_and_saturate(kept: ops.Quantized, expected: list[float]) -> None:
    numbers = np.array([[-1000, -1.1, -0.5, 0.25, 0.5, 0.75, 1.25, 1000]], np.float32)
    affine = ops.Affine(inputs=(0,), scale="one", bias="zero", out=kept)
    tensors = {"one": np.ones(8, np.float32), "zero": np.zeros(8, np.float32)}
    program = Program(input_shape=(8,), ops=(affine,), tensors=tensors, output=1)
    np.testing.assert_array_equal(program.reference(numbers)[0], expected)


def test_integers_come_without_their_scale() -> None:
    relu = ops.Relu(inputs=(0,), out=ops.Quantized(type="uint8", scale=0.5))
    examples = np.array([[-1.0, 2.0]], np.float32)
    assert dict(reference.values([relu], {}, [examples]))[1].tolist() == [[0, 4]]
    assert reference.run([relu], {}, [1], [examples])[0].tolist() == [[0, 2]]


def test_an_empty_batch_gives_empty_outputs() -> None:
    program = Program(input_shape=(3, 4, 4), ops=(ops.GlobalPool(inputs=(0,)),), tensors={}, output=1)
    assert program.reference(np.zeros((0, 3, 4, 4), np.float32)).shape == (0, 3)


def test_a_program_may_give_back_its_input() -> None:
    examples = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    same = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=0)
    np.testing.assert_array_equal(same.reference(examples), examples)
