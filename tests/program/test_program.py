from __future__ import annotations

import json

import numpy as np
import pytest

from signwise.errors import FormatError, SignwiseError
from signwise.program import operations as ops
from signwise.program.checks import LARGEST_ACTIVATIONS, infer_shapes
from signwise.program.program import Program


def conv(**changes):
    defaults = {"inputs": (0,), "weight": "weight", "bits": 1, "out_channels": 4, "kernel": (3, 3)}
    return ops.Conv(**{**defaults, **changes})


def program(**changes):
    tensors = {"weight": np.zeros((4, 4), np.uint8)}
    return Program(**{"input_shape": (3, 8, 8), "ops": (conv(),), "tensors": tensors, "output": 1, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": (0, 3)}, r"kernel must be 2 integers from 1 to 1024, got \(0, 3\)"),
        ({"kernel": [3, 3]}, "kernel must be 2 integers"),
        ({"kernel": (3, 3.0)}, "kernel must be 2 integers"),
        ({"stride": (1, True)}, "stride must be 2 integers"),
        ({"padding": (0, 0, -1, 0)}, "padding must be 4 integers"),
        ({"groups": 3}, "out_channels must be a multiple of groups, got 4 and 3"),
        ({"bits": 2}, "bits must be 1 or 32, got 2"),
        ({"weight": ""}, "weight must be the name of a tensor, got ''"),
        ({"weight": "\x1b[2J"}, "weight must be the name of a tensor"),
        ({"relu": 1}, "relu must be true or false, got 1"),
        ({"inputs": (0, 1, 2)}, r"in must list 1 to 2 values, got \(0, 1, 2\)"),
        ({"inputs": (-1,)}, "in must be an integer from 0"),
        ({"out": "int8"}, "out must be null or a type with a scale"),
    ],
)
def test_an_operation_refuses_an_attribute_by_name_and_value(changes, message):
    with pytest.raises(FormatError, match=message):
        conv(**changes)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-38, 1, True])
def test_a_quantization_scale_that_could_overflow_is_refused(scale):
    with pytest.raises(FormatError, match=r"out\.scale must be a number from 1e-30 to 1e30"):
        ops.Quantized(type="uint8", scale=scale)


def test_a_quantization_scale_means_the_same_number_to_every_reader():
    with pytest.raises(FormatError, match=r"exactly a float32, got 0\.1"):
        ops.Quantized(type="int8", scale=0.1)
    ops.Quantized(type="int8", scale=float(np.float32(0.1)))


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
def test_a_program_whose_parts_do_not_fit_is_refused(changes, message):
    with pytest.raises(FormatError, match=message):
        program(**changes)


def test_a_tensor_that_no_operation_uses_is_refused():
    extra = {"weight": np.zeros((4, 4), np.uint8), "spare": np.zeros(1, np.float32)}
    with pytest.raises(FormatError, match="no operation uses tensor 'spare'"):
        program(tensors=extra)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused(number):
    tensors = {"weight": np.zeros((4, 4), np.uint8), "bias": np.array([0, 1, number, 2], np.float32)}
    with pytest.raises(FormatError, match="'bias' holds a number that is not finite"):
        program(ops=(conv(bias="bias"),), tensors=tensors)


def test_activations_cannot_grow_beyond_the_limit():
    doubling = [ops.Concat(inputs=(value, value)) for value in range(60)]
    with pytest.raises(FormatError, match=f"exceed the limit of {LARGEST_ACTIVATIONS} numbers"):
        infer_shapes((1,), doubling)
    with pytest.raises(FormatError, match="exceed the limit"):
        infer_shapes((1, 1, 1), [ops.PadChannels(inputs=(0,), before=2**28, after=0)])


def test_arithmetic_cannot_grow_beyond_the_limit():
    slow = ops.MaxPool(inputs=(0,), kernel=(1024, 1024), stride=(1, 1))
    with pytest.raises(FormatError, match="operations of arithmetic"):
        infer_shapes((1, 4096, 4096), [slow])


def test_a_weight_cannot_be_copied_without_end():
    dense = [ops.Dense(inputs=(value,), weight="weight", bits=1, out_features=8, in_features=8) for value in range(65)]
    tensors = {"weight": np.zeros((8, 1), np.uint8)}
    Program(input_shape=(8,), ops=tuple(dense[:64]), tensors=tensors, output=64)
    with pytest.raises(FormatError, match="more than 64 operations share the weight 'weight'"):
        Program(input_shape=(8,), ops=tuple(dense), tensors=tensors, output=65)


def test_too_many_operations_are_refused():
    with pytest.raises(FormatError, match="may have 4096 operations, got 4097"):
        infer_shapes((1,), [ops.Relu(inputs=(0,))] * 4097)


def test_a_pool_whose_padding_could_fill_a_window_is_refused():
    with pytest.raises(FormatError, match="padding must be smaller than kernel"):
        ops.MaxPool(inputs=(0,), kernel=(2, 2), stride=(1, 1), padding=(2, 0, 0, 0))


def test_json_has_one_spelling_and_comes_back_equal():
    quantized = ops.Quantized(type="uint8", scale=0.5)
    first = program(ops=(conv(out=quantized),), about={"b": "second é", "a": "first"})
    text = first.to_json()
    again = Program.from_json(text, first.tensors)
    assert again.to_json() == text and again.ops == first.ops and again.about == first.about
    assert " " not in text.replace("second ", "") and text.isascii()
    assert text.index('"a":') < text.index('"b":')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update(version=2), "reads file version 2, this one reads version 1: pip install"),
        (lambda document: document.update(version="1"), "version must be an integer"),
        (lambda document: document.update(extra=1), "the program has an unknown 'extra'"),
        (lambda document: document.pop("ops"), "the program lacks 'ops'"),
        (lambda document: document.update(ops={}), "ops must be a list"),
        (lambda document: document.update(about=[]), "about must hold text"),
        (lambda document: document["ops"][0].update(op="attention"), r"operation 0: op 'attention' is not one of conv"),
        (lambda document: document["ops"][0].pop("kernel"), r"operation 0 \(conv\) lacks 'kernel'"),
        (lambda document: document["ops"][0].update(kernel=[3]), r"operation 0 \(conv\): kernel must be 2 integers"),
        (lambda document: document["ops"][0].update(out={"type": "int8"}), r"out lacks 'scale'"),
        (lambda document: document["ops"][0].update({"in": 0}), r"in must list 1 to 2 values, got 0"),
    ],
)
def test_a_damaged_document_is_refused_by_the_name_of_the_damage(change, message):
    whole = program()
    document = json.loads(whole.to_json())
    change(document)
    with pytest.raises(FormatError, match=message):
        Program.from_json(json.dumps(document), whole.tensors)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"a":NaN}', '{"a":1,"a":2}', "[" * 100_000, '{"version":' + "9" * 10_000 + "}", "null", '"text"'],
)
def test_text_that_is_no_document_is_refused(text):
    with pytest.raises(FormatError):
        Program.from_json(text, {})


def test_tensors_cannot_be_changed_behind_the_program():
    tensors = {"weight": np.zeros((4, 4), np.uint8)}
    made = program(tensors=tensors)
    with pytest.raises(ValueError, match="read-only"):
        made.tensors["weight"][0] = 1
    tensors.clear()
    assert "weight" in made.tensors


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 3, 8), (2, 3, 8, 9), (), (1, 2, 3, 8, 8)])
def test_an_input_of_another_shape_is_refused(shape):
    with pytest.raises(SignwiseError, match=r"must have shape \(batch, 3, 8, 8\), got"):
        program().as_input(np.zeros(shape))


def test_an_input_that_is_no_number_is_refused():
    with pytest.raises(SignwiseError, match="real numbers, got complex128"):
        program().as_input(np.zeros((1, 3, 8, 8), complex))
