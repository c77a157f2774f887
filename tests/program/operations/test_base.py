"""Operations as a family: their numbers in the C interface, the attributes that each refuses, and their windows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from signwise.errors import FormatError
from signwise.program import operations as ops
from signwise.program.operations import activations, arithmetic
from signwise.program.operations.base import padded_size, positions, window_shape

HEADER = Path(__file__).parents[3] / "csrc" / "signwise.h"


def enumerated() -> dict[str, int]:
    """Every ``SIGNWISE_NAME = number`` of the C header."""
    return {name: number for names in enumerations() for name, number in names.items()}


def enumerations() -> list[dict[str, int]]:
    """The enumerations of the C header, one by one."""
    bodies = re.findall(r"enum \{(.*?)\}", HEADER.read_text(), re.DOTALL)
    return [{name: int(number) for name, number in re.findall(r"SIGNWISE_(\w+) = (\d+)", body)} for body in bodies]


def enumeration_of(member: str) -> dict[str, int]:
    return next(names for names in enumerations() if member in names)


def conv(**changes: Any) -> ops.Conv:
    defaults = {"inputs": (0,), "weight": "weight", "bits": 1, "out_channels": 4, "kernel": (3, 3)}
    return ops.Conv(**{**defaults, **changes})


def test_every_operation_has_its_number_in_the_c_header_and_the_header_has_no_other() -> None:
    assert {kind.upper(): operation.number for kind, operation in ops.KINDS.items()} == enumeration_of("CONV")


def test_functions_have_their_numbers_in_the_c_header() -> None:
    assert list(enumeration_of("SILU").items()) == [(name.upper(), i) for i, name in enumerate(activations.FUNCTIONS)]
    assert sorted(enumeration_of("PRODUCT").values()) == list(range(len(arithmetic.FUNCTIONS)))


@pytest.mark.parametrize("name", ["uint8", "int8", "uint6"])
def test_every_type_has_its_number_in_the_c_header(name: Any) -> None:
    assert ops.Quantized(type=name, scale=1.0).number == enumerated()[name.upper()]


def test_every_kind_evaluates_and_has_a_unique_name() -> None:
    for kind, operation in ops.KINDS.items():
        assert operation.kind == kind
        assert operation.evaluate is not ops.Operation.evaluate


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": (0, 3)}, r"kernel must be 2 integers from 1 to 1024, got \(0, 3\)"),
        ({"kernel": [3, 3]}, "kernel must be 2 integers"),
        ({"kernel": (3, 3.0)}, "kernel must be 2 integers"),
        ({"stride": (1, True)}, "stride must be 2 integers"),
        ({"padding": (0, 0, -1, 0)}, "padding must be 4 integers"),
        ({"dilation": (1, 1025)}, "dilation must be 2 integers from 1 to 1024"),
        ({"groups": 3}, "out_channels must be a multiple of groups, got 4 and 3"),
        ({"out_channels": 2**28 + 1}, "out_channels must be an integer from 1 to 268435456"),
        ({"bits": 2}, "bits must be 1 or 32, got 2"),
        ({"weight": ""}, "weight must be the name of a tensor, got ''"),
        ({"weight": "\x1b[2J"}, "weight must be the name of a tensor"),
        ({"weight": "w" * 256}, "weight must be the name of a tensor"),
        ({"relu": 1}, "relu must be true or false, got 1"),
        ({"inputs": (0, 1, 2)}, r"in must list 1 to 2 values, got \(0, 1, 2\)"),
        ({"inputs": (-1,)}, "in must be an integer from 0"),
        ({"out": "int8"}, "out must be null or a type with a scale"),
    ],
)
def test_an_operation_refuses_an_attribute_by_name_and_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        conv(**changes)


def test_tensors_are_listed_by_attribute_and_absent_ones_are_left_out() -> None:
    assert conv(bias="b").tensor_names == {"weight": "weight", "bias": "b"}
    assert ops.Relu(inputs=(0,)).tensor_names == {}


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-38, 1, True])
def test_a_quantization_scale_that_could_overflow_is_refused(scale: Any) -> None:
    with pytest.raises(FormatError, match=r"out\.scale must be a number from 1e-30 to 1e30"):
        ops.Quantized(type="uint8", scale=scale)


def test_a_quantization_type_outside_the_list_is_refused() -> None:
    wrong: Any = "int4"
    with pytest.raises(FormatError, match=r"out\.type must be one of uint8, int8, uint6, got 'int4'"):
        ops.Quantized(type=wrong, scale=1.0)


def test_a_quantization_scale_means_the_same_number_to_every_reader() -> None:
    with pytest.raises(FormatError, match=r"exactly a float32, got 0\.1"):
        ops.Quantized(type="int8", scale=0.1)
    ops.Quantized(type="int8", scale=float(np.float32(0.1)))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("uint8", [0, 0, 0, 2, 2, 255]), ("int8", [-128, -2, 0, 2, 2, 127]), ("uint6", [0, 0, 0, 2, 2, 63])],
)
def test_integers_round_halves_to_even_and_saturate(kind: Any, expected: list[int]) -> None:
    numbers = 0.5 * np.array([-1000, -1.5, 0.5, 1.5, 2.5, 1000])
    assert ops.Quantized(type=kind, scale=0.5).to_integers(numbers).tolist() == expected


def test_only_binary_layers_ask_for_integers() -> None:
    assert conv().integer_inputs == conv(inputs=(0, 1)).integer_inputs == (0,)
    assert conv(bits=32).integer_inputs == () and ops.Relu(inputs=(0,)).integer_inputs == ()


def test_operations_that_only_move_numbers_are_exact_on_integers() -> None:
    read = ops.Quantized(type="int8", scale=0.5)
    moving = {kind for kind, operation in ops.KINDS.items() if operation.moves_numbers}
    moving_shapes = {"transpose", "reshape", "slice", "pad", "expand"}
    assert moving == {"maxpool", "pad_channels", "flatten", "concat", *moving_shapes}
    assert ops.Pad(inputs=(0,), before=(1,), after=(0,), value=1.5).exact_result(read) is None
    assert ops.Flatten(inputs=(0,)).exact_result(read) == read
    assert ops.Relu(inputs=(0,)).exact_result(read) is None


@given(size=st.integers(1, 60), kernel=st.integers(1, 9), stride=st.integers(1, 9), dilation=st.integers(1, 4))
def test_positions_count_the_windows_that_fit(size: int, kernel: int, stride: int, dilation: int) -> None:
    extent = dilation * (kernel - 1) + 1
    assume(extent <= size)
    assert positions(size, kernel, stride, dilation) == len(range(0, size - extent + 1, stride))


@pytest.mark.parametrize(("kernel", "side"), [((9, 3), "height of 8"), ((3, 10), "width of 9")])
def test_a_window_larger_than_the_padded_image_is_refused(kernel: tuple[int, int], side: str) -> None:
    with pytest.raises(FormatError, match=f"does not fit the padded {side}"):
        window_shape((3, 8, 9), kernel, (1, 1), (0, 0, 0, 0))


def test_padding_costs_a_copy_of_the_image_and_none_costs_nothing() -> None:
    assert padded_size([(2, 4, 5)], (1, 2, 0, 1)) == 2 * 5 * 8
    assert padded_size([(2, 4, 5)], (0, 0, 0, 0)) == 0
