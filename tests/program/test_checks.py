"""Operations that do not fit together are refused, and the limits hold up to the last number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from signwise.errors import FormatError
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.checks import LARGEST_ACTIVATIONS, LARGEST_OPERATIONS, LARGEST_READERS, LARGEST_WORK, infer_shapes


def conv(**changes: Any) -> ops.Conv:
    defaults = {"inputs": (0,), "weight": "weight", "bits": 1, "out_channels": 4, "kernel": (3, 3)}
    return ops.Conv(**{**defaults, **changes})


def program(**changes: Any) -> Program:
    tensors = {"weight": np.zeros((4, 4), np.uint8)}
    defaults = {"input_shape": (3, 8, 8), "ops": (conv(),), "tensors": tensors, "output": 1}
    return Program(**{**defaults, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ops": (conv(inputs=(1,)),)}, r"operation 0 \(conv\): reads value 1, which is not made before it"),
        ({"ops": (conv(kernel=(9, 3)),)}, r"operation 0 \(conv\): a window of 9 does not fit the padded height of 8"),
        ({"ops": (conv(groups=2),)}, r"operation 0 \(conv\): 3 input channels are no multiple of groups 2"),
        ({"ops": (conv(inputs=(0, 0)),)}, r"the residual has shape \[3, 8, 8\], the result \[4, 6, 6\]"),
        ({"input_shape": (3,)}, r"needs an image, but its input has shape \[3\]"),
        ({"input_shape": (3, 8)}, "input shape must be"),
        ({"input_shape": (3, 0, 8)}, "input shape must be an integer from 1"),
        ({"output": 2}, "output must be an integer from 0 to 1, got 2"),
        ({"tensors": {}}, r"operation 0 \(conv\): weight 'weight' is missing"),
        ({"tensors": {"weight": np.zeros((4, 5), np.uint8)}}, r"must be uint8 \[4, 4\], got uint8 \[4, 5\]"),
        ({"tensors": {"weight": np.zeros((4, 4), np.int8)}}, r"must be uint8 \[4, 4\], got int8 \[4, 4\]"),
        ({"tensors": {"weight": np.full((4, 4), 255, np.uint8)}}, "has pad bits that are not zero"),
        ({"about": {"a": 1}}, "about must hold printable text by keyword, got 'a': 1"),
        ({"about": {"a": "\x1b[2J"}}, "about must hold printable text"),
    ],
)
def test_a_program_whose_parts_do_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        program(**changes)


def test_a_tensor_that_no_operation_uses_is_refused() -> None:
    extra = {"weight": np.zeros((4, 4), np.uint8), "spare": np.zeros(1, np.float32)}
    with pytest.raises(FormatError, match="no operation uses tensor 'spare'"):
        program(tensors=extra)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused(number: float) -> None:
    tensors = {"weight": np.zeros((4, 4), np.uint8), "bias": np.array([0, 1, number, 2], np.float32)}
    with pytest.raises(FormatError, match="'bias' holds a number that is not finite"):
        program(ops=(conv(bias="bias"),), tensors=tensors)


def test_activations_cannot_grow_beyond_the_limit() -> None:
    doubling = [ops.Concat(inputs=(value, value)) for value in range(60)]
    with pytest.raises(FormatError, match=f"exceed the limit of {LARGEST_ACTIVATIONS} numbers"):
        infer_shapes((1,), doubling)
    with pytest.raises(FormatError, match="exceed the limit"):
        infer_shapes((1, 1, 1), [ops.PadChannels(inputs=(0,), before=2**28, after=0)])


def test_arithmetic_cannot_grow_beyond_the_limit() -> None:
    slow = ops.MaxPool(inputs=(0,), kernel=(1024, 1024), stride=(1, 1))
    with pytest.raises(FormatError, match="additions or multiplications per example"):
        infer_shapes((1, 4096, 4096), [slow])


def test_a_weight_cannot_be_copied_without_end() -> None:
    dense = [ops.Dense(inputs=(value,), weight="weight", bits=1, out_features=8, in_features=8) for value in range(65)]
    tensors = {"weight": np.zeros((8, 1), np.uint8)}
    Program(input_shape=(8,), ops=tuple(dense[:64]), tensors=tensors, output=64)
    with pytest.raises(FormatError, match="more than 64 operations share the weight 'weight'"):
        Program(input_shape=(8,), ops=tuple(dense), tensors=tensors, output=65)


def test_too_many_operations_are_refused() -> None:
    with pytest.raises(FormatError, match="may have 4096 operations, got 4097"):
        infer_shapes((1,), [ops.Relu(inputs=(0,))] * 4097)


def test_the_largest_numbers_of_operations_activations_and_work_are_accepted() -> None:
    assert len(infer_shapes((1,), [ops.Relu(inputs=(0,))] * LARGEST_OPERATIONS)) == LARGEST_OPERATIONS + 1
    half = LARGEST_ACTIVATIONS // 2
    assert infer_shapes((half,), [ops.Relu(inputs=(0,))]) == ((half,), (half,))
    with pytest.raises(FormatError, match="exceed the limit"):
        infer_shapes((half + 1,), [ops.Relu(inputs=(0,))])
    inputs = 2**14
    layer: dict[str, Any] = {"inputs": (0,), "weight": "w", "bits": 1, "in_features": inputs}
    infer_shapes((inputs,), [ops.Dense(out_features=LARGEST_WORK // inputs, **layer)])
    with pytest.raises(FormatError, match="additions or multiplications per example"):
        infer_shapes((inputs,), [ops.Dense(out_features=LARGEST_WORK // inputs + 1, **layer)])


def test_padding_counts_as_activations() -> None:
    side = 2**13
    pool = {"inputs": (0,), "kernel": (1024, 1024), "stride": (1024, 1024)}
    infer_shapes((1, side, side), [ops.MaxPool(**pool)])  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="exceed the limit"):
        infer_shapes((3, side, side), [ops.MaxPool(**pool, padding=(1023, 0, 0, 0))])  # type: ignore[arg-type]


def test_readers_of_one_weight_are_counted_by_weight() -> None:
    dense = [
        ops.Dense(inputs=(value,), weight=f"w{value % 2}", bits=1, out_features=8, in_features=8)
        for value in range(2 * LARGEST_READERS)
    ]
    tensors = {"w0": np.zeros((8, 1), np.uint8), "w1": np.zeros((8, 1), np.uint8)}
    Program(input_shape=(8,), ops=tuple(dense), tensors=tensors, output=len(dense))
