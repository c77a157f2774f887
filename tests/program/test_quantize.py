from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import signwise as sw
from signwise.compiler import compile  # noqa: A004
from signwise.program import operations as ops
from signwise.program import reference
from signwise.program.bits import pack_signs
from signwise.program.program import Program
from signwise.program.quantize import Range, quantize


def seen(*batches, narrow=False):
    values, generator = Range(), np.random.default_rng(0)
    for batch in batches:
        values.see(np.asarray(batch, np.float32), generator)
    return values.quantized(narrow)


def test_values_that_are_never_negative_leave_room_for_a_sum_of_four_where_that_is_asked_for():
    kept, narrow = seen([0, 5.1], [1, 2]), seen([0, 5.1], [1, 2], narrow=True)
    assert kept.type == "uint8" and 255 * kept.scale == pytest.approx(5.1, rel=0.1)
    assert narrow.type == "uint6" and 63 * narrow.scale == pytest.approx(5.1, rel=0.1)
    assert seen([0, 5.1], [-0.01, 2]).type == seen([0, 5.1], [-0.01, 2], narrow=True).type == "int8"


def test_raw_pixels_stay_exact():
    assert seen([0, 255], [17, 4]) == ops.Quantized(type="uint8", scale=1.0)
    assert seen([0, 255], [17, 4], narrow=True) == ops.Quantized(type="uint8", scale=1.0)
    assert seen([0, 256], [17, 4], narrow=True).type == "uint6"
    assert seen([0, 255], [17, 4.5], narrow=True).type == "uint6"


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
def test_what_a_3x3_convolution_reads_has_six_bits(kernel, stride, dilation, expected):
    model = nn.Sequential(nn.ReLU(), nn.Conv2d(2, 4, kernel, stride, dilation=dilation))
    sw.binarize_(model, skip=None)
    for narrow in (True, False):
        program = compile(model, torch.zeros(1, 2, 9, 9), "int8", calibrate=torch.randn(8, 2, 9, 9), narrow=narrow)
        assert program.ops[0].out is not None and program.ops[0].out.type == (expected if narrow else "uint8")


def test_an_outlier_is_cut_off_where_that_costs_less_than_coarse_steps():
    numbers = np.abs(np.random.default_rng(0).standard_normal(8000))
    without, beside = seen(numbers), seen(np.append(numbers, 6.0))
    assert without.scale < beside.scale < 6.0 / 255


def test_a_value_that_is_always_zero_gets_a_scale():
    assert seen(np.zeros(10)).scale > 0


@pytest.mark.parametrize("size", [1e-25, 1.0, 1e25])
def test_the_largest_number_stays_within_a_quarter_of_the_range(size):
    kept = seen(size * np.random.default_rng(0).standard_normal(1000))
    assert 4 * 128 * kept.scale >= 0.9 * 3 * size


def test_integers_reach_back_through_pools_that_only_pick():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32, 4), nn.Linear(4, 2)
    )
    sw.binarize_(model)
    program = compile(model, torch.zeros(1, 3, 6, 6), "int8", calibrate=torch.randn(8, 3, 6, 6))
    kinds = {operation.kind: operation.out for operation in program.ops}
    assert kinds["conv"] == kinds["maxpool"] == kinds["flatten"] and kinds["conv"].type == "uint8"
    assert program.ops[-1].out is None


def test_a_value_that_others_read_stays_float_before_a_pool():
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
    kept = [operation.out for operation in quantize(program, np.ones((3, 2, 2, 2))).ops]
    assert kept[0] is None and kept[1] is not None and kept[2:] == [None] * 4


@pytest.mark.parametrize(
    ("pool", "narrow", "expected"),
    [
        ({"kernel": (2, 2)}, True, "uint8"),
        ({"kernel": (2, 2), "padding": (0, 0, 1, 1)}, True, "uint8"),
        ({"kernel": (2, 2), "padding": (0, 0, 1, 1), "count_include_pad": False}, True, None),
        ({"kernel": (3, 2)}, True, None),
        ({"kernel": (2, 2)}, False, None),
    ],
)
def test_a_shortcut_that_integers_hold_without_loss_is_kept_in_them(pool, narrow, expected):
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
    quantized = quantize(program, images, narrow=narrow)
    first, conv, shortcut, padded, *rest = (operation.out for operation in quantized.ops)
    assert shortcut == padded and (None if shortcut is None else shortcut.type) == expected
    assert first is not None and conv is None and rest == [None] * 3
    floats = replace(quantized, ops=(quantized.ops[0], *program.ops[1:]))
    np.testing.assert_allclose(reference.run(quantized, images), reference.run(floats, images), rtol=1e-5, atol=1e-5)


def test_a_binary_layer_that_reads_the_input_gets_integers_too():
    model = nn.Sequential(nn.Linear(6, 4))
    sw.binarize_(model, skip=None)
    examples = torch.randint(0, 256, (32, 6)).float()
    program = compile(model, examples, "int8", calibrate=examples)
    assert [operation.kind for operation in program.ops] == ["affine", "dense"]
    assert program.ops[0].out is not None and program.ops[0].out.type == "uint8"
    with torch.no_grad():
        expected = model.eval()(examples).numpy()
    np.testing.assert_allclose(reference.run(program, examples.numpy()), expected, atol=6 * 0.51)


def test_the_loss_is_measured_and_kept():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    sw.binarize_(model, skip=sw.last)
    images = torch.randn(50, 6)
    with torch.no_grad():
        labels = model.eval()(images).argmax(1)
    labels[:5] = (labels[:5] + 1) % 3
    program = compile(model, images, "int8", calibrate=images, validate=(images, labels), about={"dataset": "made up"})
    assert program.about["error with float32 activations"] == "10.00 % of 50 examples"
    assert program.about["error"].endswith("% of 50 examples") and program.about["dataset"] == "made up"
    assert program.about["activations"] == "int8, calibrated on 50 examples"
    plain = compile(model, images, validate=(images, labels))
    assert plain.about["error"] == "10.00 % of 50 examples"


def test_labels_without_images_are_refused():
    model = nn.Sequential(nn.Linear(6, 3))
    with pytest.raises(sw.SignwiseError, match="as many labels as images are needed, got 2 and 3"):
        compile(model, torch.zeros(1, 6), validate=(torch.zeros(3, 6), torch.zeros(2)))


def test_a_model_without_binary_layers_is_refused():
    with pytest.raises(sw.SignwiseError, match="the model has none: compile it with float32"):
        compile(nn.Sequential(nn.Linear(6, 3)), torch.zeros(1, 6), "int8", calibrate=torch.zeros(1, 6))
