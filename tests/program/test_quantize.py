from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

import signwise as sw
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.operations import pack_signs
from signwise.program.quantize import Range


def seen(*batches: npt.ArrayLike, six_bits: bool = False) -> ops.Quantized:
    values, generator = Range(), np.random.default_rng(0)
    for batch in batches:
        values.see(np.asarray(batch, np.float32), generator)
    return values.quantized(six_bits)


def test_values_that_are_never_negative_leave_room_for_a_sum_of_four_where_that_is_asked_for() -> None:
    kept, narrow = seen([0, 5.1], [1, 2]), seen([0, 5.1], [1, 2], six_bits=True)
    assert kept.type == "uint8" and 255 * kept.scale == pytest.approx(5.1, rel=0.1)
    assert narrow.type == "uint6" and 63 * narrow.scale == pytest.approx(5.1, rel=0.1)
    assert seen([0, 5.1], [-0.01, 2]).type == seen([0, 5.1], [-0.01, 2], six_bits=True).type == "int8"


def test_raw_pixels_stay_exact() -> None:
    assert seen([0, 255], [17, 4]) == ops.Quantized(type="uint8", scale=1.0)
    assert seen([0, 255], [17, 4], six_bits=True) == ops.Quantized(type="uint8", scale=1.0)
    assert seen([0, 256], [17, 4], six_bits=True).type == "uint6"
    assert seen([0, 255], [17, 4.5], six_bits=True).type == "uint6"


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "expected"),
    [
        (3, 1, 1, "uint6"),
        (3, 2, 1, "uint6"),
        (1, 1, 1, "uint8"),
        (5, 1, 1, "uint8"),
        (3, 1, 2, "uint8"),
        (3, 3, 1, "uint8"),
    ],
)
def test_what_a_3x3_convolution_reads_has_six_bits(
    kernel: int, stride: int, dilation: int, expected: str | None
) -> None:
    model = nn.Sequential(nn.ReLU(), nn.Conv2d(2, 4, kernel, stride, dilation=dilation))
    sw.binarize_(model, skip=None)
    program = sw.compile(model, torch.zeros(1, 2, 9, 9))
    for six_bit_inputs in (True, False):
        quantized = program.quantize(torch.randn(8, 2, 9, 9).numpy(), six_bit_inputs=six_bit_inputs)
        out = quantized.ops[0].out
        assert out is not None and out.type == (expected if six_bit_inputs else "uint8")


def test_an_outlier_is_cut_off_where_that_costs_less_than_coarse_steps() -> None:
    numbers = np.abs(np.random.default_rng(0).standard_normal(8000))
    without, beside = seen(numbers), seen(np.append(numbers, 6.0))
    assert without.scale < beside.scale < 6.0 / 255


def test_a_value_that_is_always_zero_gets_a_scale() -> None:
    assert seen(np.zeros(10)).scale > 0


@pytest.mark.parametrize("size", [1e-25, 1.0, 1e25])
def test_the_largest_number_stays_within_a_quarter_of_the_range(size: float) -> None:
    kept = seen(size * np.random.default_rng(0).standard_normal(1000))
    assert 4 * 128 * kept.scale >= 0.9 * 3 * size


def test_integers_reach_back_through_pools_that_only_pick() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32, 4), nn.Linear(4, 2)
    )
    sw.binarize_(model)
    program = sw.compile(model, torch.zeros(1, 3, 6, 6)).quantize(torch.randn(8, 3, 6, 6).numpy())
    kinds = {operation.kind: operation.out for operation in program.ops}
    assert kinds["conv"] == kinds["maxpool"] == kinds["flatten"] and kinds["conv"] is not None
    assert kinds["conv"].type == "uint8"
    assert program.ops[-1].out is None


def test_a_value_that_others_read_stays_float_before_a_pool() -> None:
    weight = pack_signs(np.ones((2, 2)))
    program = Program(
        input_shape=(2, 2, 2),
        ops=(
            ops.Relu(inputs=(0,)),
            ops.MaxPool(inputs=(1,), kernel=(2, 2), stride=(2, 2)),
            ops.Conv(inputs=(2,), weight="weight", bits=1, out_channels=2, kernel=(1, 1)),
            ops.GlobalPool(inputs=(1,)),
            ops.GlobalPool(inputs=(3,)),
            ops.Add(inputs=(4, 5)),
        ),
        tensors={"weight": weight},
        output=6,
    )
    kept = [operation.out for operation in program.quantize(np.ones((3, 2, 2, 2))).ops]
    assert kept[0] is None and kept[1] is not None and kept[2:] == [None] * 4


@pytest.mark.parametrize(
    ("pool", "six_bit_inputs", "expected"),
    [
        ({"kernel": (2, 2)}, True, "uint8"),
        ({"kernel": (2, 2), "padding": (0, 0, 1, 1)}, True, "uint8"),
        ({"kernel": (2, 2), "padding": (0, 0, 1, 1), "count_include_pad": False}, True, None),
        ({"kernel": (3, 2)}, True, None),
        ({"kernel": (2, 2)}, False, None),
    ],
)
def test_a_shortcut_that_integers_hold_without_loss_is_kept_in_them(
    pool: dict[str, Any], six_bit_inputs: bool, expected: str | None
) -> None:
    rng = np.random.default_rng(0)
    program = Program(
        input_shape=(2, 6, 6),
        ops=(
            ops.Relu(inputs=(0,)),
            ops.Conv(inputs=(1,), weight="w", bits=1, out_channels=4, kernel=(3, 3)),
            ops.AvgPool(inputs=(1,), stride=(2, 2), **pool),
            ops.PadChannels(inputs=(3,), before=1, after=1),
            ops.GlobalPool(inputs=(2,)),
            ops.GlobalPool(inputs=(4,)),
            ops.Add(inputs=(5, 6)),
        ),
        tensors={"w": pack_signs(np.sign(rng.standard_normal((4, 18))))},
        output=7,
    )
    images = rng.standard_normal((8, 2, 6, 6))
    quantized = program.quantize(images, six_bit_inputs=six_bit_inputs)
    first, conv, shortcut, padded, *rest = (operation.out for operation in quantized.ops)
    assert shortcut == padded and (None if shortcut is None else shortcut.type) == expected
    assert first is not None and conv is None and rest == [None] * 3
    floats = replace(quantized, ops=(quantized.ops[0], *program.ops[1:]))
    np.testing.assert_allclose(quantized.reference(images), floats.reference(images), rtol=1e-5, atol=1e-5)


def test_a_binary_layer_that_reads_the_input_gets_integers_too() -> None:
    model = nn.Sequential(nn.Linear(6, 4))
    sw.binarize_(model, skip=None)
    examples = torch.randint(0, 256, (32, 6)).float()
    program = sw.compile(model, examples).quantize(examples.numpy())
    assert [operation.kind for operation in program.ops] == ["affine", "dense"]
    assert program.ops[0].out is not None and program.ops[0].out.type == "uint8"
    with torch.no_grad():
        expected = model.eval()(examples).numpy()
    np.testing.assert_allclose(program.reference(examples.numpy()), expected, atol=6 * 0.51)


def test_an_input_that_a_binary_layer_reads_gets_a_free_name() -> None:
    layer = ops.Dense(inputs=(0,), weight="input.weight", scale="input.scale", bits=1, out_features=2, in_features=3)
    tensors: dict[str, npt.NDArray[Any]] = {
        "input.weight": np.zeros((2, 1), np.uint8),
        "input.scale": np.ones(2, np.float32),
    }
    program = Program(input_shape=(3,), ops=(layer,), tensors=tensors, output=1).quantize(np.ones((4, 3)))
    assert set(program.tensors) == {"input.weight", "input.scale", "input.scale.2", "input.bias"}
    np.testing.assert_array_equal(program.reference(np.ones((1, 3))), [[-3, -3]])


def binary_layer(**options: Any) -> Program:
    layer = ops.Dense(inputs=(1,), weight="w", bits=1, out_features=2, in_features=3)
    tensors = {"w": np.zeros((2, 1), np.uint8)}
    return Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)), layer), tensors=tensors, output=2, **options)


def test_the_text_about_a_program_says_how_it_was_calibrated() -> None:
    program = binary_layer(about={"dataset": "made up"}).quantize(np.ones((7, 3)))
    assert dict(program.about) == {"dataset": "made up", "activations": "int8, calibrated on 7 examples"}


def test_the_output_stays_float32() -> None:
    program = binary_layer().quantize(np.ones((7, 3)))
    assert [operation.out is None for operation in program.ops] == [False, True]


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (np.zeros((0, 3)), "calibration needs at least one example"),
        (np.full((1, 3), np.inf), "value 1 of the program is not finite for a calibration example"),
        (np.zeros((2, 4)), r"must have shape \(batch, 3\), got \(2, 4\)"),
    ],
)
def test_examples_that_cannot_calibrate_are_refused(examples: npt.NDArray[Any], message: str) -> None:
    with pytest.raises(sw.SignwiseError, match=message):
        binary_layer().quantize(examples)


def test_a_data_loader_is_refused_with_the_way_to_one_batch() -> None:
    loader: Any = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4, 3), torch.zeros(4)))
    message = r"the input must be an array of examples, got DataLoader; one batch of a loader is next\(iter\(loader\)\)"
    with pytest.raises(sw.SignwiseError, match=message):
        binary_layer().quantize(loader)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    sw.binarize_(model, skip=None)
    with pytest.raises(sw.SignwiseError, match=message):
        sw.compile(model, torch.zeros(1, 3), "int8", calibrate=loader)


def test_a_program_without_binary_layers_is_refused() -> None:
    floats = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
    with pytest.raises(sw.SignwiseError, match="the program has none: keep it in float32"):
        floats.quantize(np.zeros((1, 3)))


def test_a_program_with_8_bit_activations_is_refused() -> None:
    with pytest.raises(sw.SignwiseError, match="has 8-bit activations already"):
        binary_layer().quantize(np.ones((7, 3))).quantize(np.ones((7, 3)))
