"""The JSON text of a program: one spelling, and every damage refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from signwise.errors import FormatError
from signwise.program import Program
from signwise.program import operations as ops


def conv(**changes: Any) -> ops.Conv:
    defaults = {"inputs": (0,), "weight": "weight", "bits": 1, "out_channels": 4, "kernel": (3, 3)}
    return ops.Conv(**{**defaults, **changes})


def program(**changes: Any) -> Program:
    tensors = {"weight": np.zeros((4, 4), np.uint8)}
    defaults = {"input_shape": (3, 8, 8), "ops": (conv(),), "tensors": tensors, "output": 1}
    return Program(**{**defaults, **changes})


def test_json_has_one_spelling_and_comes_back_equal() -> None:
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
def test_a_damaged_document_is_refused_by_the_name_of_the_damage(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    whole = program()
    document = json.loads(whole.to_json())
    change(document)
    with pytest.raises(FormatError, match=message):
        Program.from_json(json.dumps(document), whole.tensors)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"a":NaN}', '{"a":1,"a":2}', "[" * 100_000, '{"version":' + "9" * 10_000 + "}", "null", '"text"'],
)
def test_text_that_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        Program.from_json(text, {})


@pytest.mark.parametrize("scale", ["-1" + "0" * 400, "1" + "0" * 400, "-1e400"])
def test_a_scale_beyond_all_floats_is_refused(scale: str) -> None:
    eight_bits = ops.Quantized(type="int8", scale=1.0)
    text = program(ops=(conv(out=eight_bits),)).to_json().replace('"scale":1.0', f'"scale":{scale}')
    with pytest.raises(FormatError, match=r"out\.scale must be a number from 1e-30 to 1e30"):
        Program.from_json(text, program().tensors)


def test_more_parts_than_a_program_can_have_are_refused_before_they_are_parsed() -> None:
    for text in ('{"a":[' + "[]," * 2**18 + "0]}", "[" * 2**18, "{" + ",".join(f'"{i}":0' for i in range(2**20)) + "}"):
        with pytest.raises(FormatError, match="which no program needs"):
            Program.from_json(text, {})
