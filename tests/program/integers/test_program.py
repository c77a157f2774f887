"""Integer programs: golden bytes, one spelling, every field checked, and sessions that run them."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.fuzz_file import integer_program

import signwise as sw
from signwise.errors import FormatError, SignwiseError
from signwise.program import IntegerProgram, Program
from signwise.program.integers.steps import KINDS, Layer
from signwise.program.operations import Quantized

PIXELS = Quantized(type="uint8", scale=1.0)


def layer(**changes: Any) -> Layer:
    """Two filters of three weights: +1 -1 +1 and -1 +1 -1."""
    defaults: dict[str, Any] = {
        "inputs": (0,),
        "out": None,
        "weight": np.array([[5], [2]], np.uint8),
        "multipliers": np.array([2, -3], np.int16),
        "offsets": np.array([1, 70_000], np.int32),
        "shift": 1,
        "flatten": True,
        "relu": False,
    }
    return Layer(**{**defaults, **changes})


def tiny(**changes: Any) -> IntegerProgram:
    defaults: dict[str, Any] = {"input_shape": (3,), "input_type": PIXELS, "steps": [layer()], "output_scale": 0.5}
    return IntegerProgram(**{**defaults, **changes})


GOLDEN_HEADER = (
    '{"__metadata__":{"signwise":"{\\"about\\":{\\"name\\":\\"tiny\\"},\\"input\\":{\\"scale\\":1.0,\\"shape\\":[3],'
    '\\"type\\":\\"uint8\\"},\\"kind\\":\\"integers\\",\\"output_scale\\":0.5,\\"steps\\":[{\\"dilation\\":[1,1],'
    '\\"flatten\\":true,\\"groups\\":1,\\"in\\":[0],\\"kernel\\":[1,1],\\"out\\":null,\\"padding\\":[0,0,0,0],'
    '\\"pool\\":[1,1],\\"relu\\":false,\\"residual_multiplier\\":null,\\"shift\\":1,\\"step\\":\\"layer\\",'
    '\\"stride\\":[1,1]}],\\"version\\":3}"},"step1.multipliers":{"data_offsets":[8,12],"dtype":"I16","shape":[2]},'
    '"step1.offsets":{"data_offsets":[0,8],"dtype":"I32","shape":[2]},"step1.weight":{"data_offsets":[12,14],'
    '"dtype":"U8","shape":[2,1]}}'
)


def test_the_bytes_are_golden() -> None:
    header = GOLDEN_HEADER.encode() + b" " * (-len(GOLDEN_HEADER) % 8)
    body = bytes.fromhex("01000000 70110100 0200 fdff 05 02")
    expected = len(header).to_bytes(8, "little") + header + body
    assert tiny(about={"name": "tiny"}).encode() == expected
    assert IntegerProgram.decode(expected).encode() == expected


def test_the_integers_are_those_of_the_formula() -> None:
    found = tiny().run(np.array([[10, 20, 30], [255, 0, 255]]))
    assert found.dtype == np.int32
    assert found.tolist() == [[(2 * 20 + 1) >> 1, (3 * 20 + 70_000) >> 1], [510, (3 * 510 + 70_000) >> 1]]


def test_numbers_become_the_nearest_byte_and_what_is_no_number_is_refused() -> None:
    signed = tiny(input_type=Quantized(type="int8", scale=0.5))
    assert signed.as_bytes(np.array([[0.24, 0.25, -100]])).reshape(-1).tolist() == [128, 129, 0]
    with pytest.raises(SignwiseError, match="no byte stands for infinity or NaN"):
        signed.run(np.array([[0, 1, np.nan]]))
    with pytest.raises(SignwiseError, match=r"must have shape \(batch, 3\), got \(3,\); a single one needs a batch"):
        signed.run(np.zeros(3))


def test_weights_take_one_bit_or_one_byte_in_the_file() -> None:
    program = integer_program()
    for number, step in enumerate(program.steps, start=1):
        if isinstance(step, Layer):
            weights = program.rows()[number - 1].weights
            assert program.tensors[f"step{number}.weight"].nbytes >= weights * step.bits / 8
            assert step.weight.dtype == (np.uint8 if step.bits == 1 else np.int8)
    assert {step.kind for step in program.steps} == set(KINDS)


def test_a_saved_program_loads_equal_and_gives_the_same_integers(tmp_path: Path) -> None:
    program = integer_program()
    program.save(tmp_path / "net.sw")
    again = IntegerProgram.load(tmp_path / "net.sw")
    assert again.encode() == program.encode() and repr(again) == repr(program)
    assert [path.name for path in tmp_path.iterdir()] == ["net.sw"], "no temporary file is left"
    examples = np.random.default_rng(0).normal(0, 1, (70, *program.input_shape))
    expected = program.run(examples)
    np.testing.assert_array_equal(again.run(examples), expected)
    session = sw.load(tmp_path / "net.sw", threads=1)
    np.testing.assert_array_equal(session(examples), expected)
    np.testing.assert_array_equal(session.bind(examples)(), expected)
    assert "isa=numpy" in repr(session)
    for copied in (copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        assert copied.encode() == program.encode()


def test_loading_and_running_needs_no_torch(tmp_path: Path) -> None:
    tiny().save(tmp_path / "net.sw")
    code = "import sys; sys.modules['torch'] = None; import signwise as sw; print(sw.load(sys.argv[1])([[1, 2, 3]]))"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "net.sw"], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[[    2 35003]]"


def test_each_reader_says_what_to_do_with_the_other_kind(tmp_path: Path) -> None:
    tiny().save(tmp_path / "net.sw")
    with pytest.raises(FormatError, match=r"net\.sw': the file holds a program in integers alone: signwise\.load"):
        Program.load(tmp_path / "net.sw")
    with pytest.raises(FormatError, match=r"float32 values: Program\.load\(path\)\.to_integers\(examples\) makes"):
        IntegerProgram.load("lenet5-mnist-1bit")
    with pytest.raises(SignwiseError, match="exports to C alone: for ONNX take the program that it was made from"):
        sw.export.onnx(tiny(), tmp_path / "net.onnx")  # type: ignore[arg-type]
    with pytest.raises(SignwiseError, match="net is an integer program, which browsers do not run"):
        sw.export.wasm({"net": tiny()}, tmp_path)  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update(version=7), "needs a signwise that reads file version 7"),
        (lambda document: document.update(kind="floats"), "kind must be 'integers', got 'floats'"),
        (lambda document: document.pop("steps"), "the program lacks 'steps'"),
        (lambda document: document.update(more=1), "the program has an unknown 'more'"),
        (lambda document: document.update(about=[]), "about must hold text"),
        (lambda document: document.update(steps={}), "steps must be a list"),
        (lambda document: document.update(steps=[]), "an integer program has 1 to 4096 steps, got 0"),
        (lambda document: document.update(output_scale=0), "output_scale must be a number from 1e-30"),
        (lambda document: document.update(output_scale=0.1), "output_scale must be exactly a float32"),
        (lambda document: document["input"].update(type="uint6"), "input type must be uint8 or int8"),
        (lambda document: document["input"].update(scale=-1), "input: out.scale must be"),
        (lambda document: document["input"].update(shape=[2, 9]), "input shape must be"),
        (lambda document: document["input"].update(shape=[2, 9, 2**16]), "input shape must be an integer from 1 to"),
        (lambda document: document["steps"].append(7), "must have a step, got 7"),
        (
            lambda document: document["steps"][0].update(step="softmax"),
            "step 1: 'softmax' is not one of layer, rescale",
        ),
        (lambda document: document["steps"][0].pop("relu"), r"step 1 \(layer\) lacks 'relu'"),
        (lambda document: document["steps"][0].update({"in": [0, 0, 0]}), r"step 1 \(layer\): in must list 1 to 2"),
        (lambda document: document["steps"][0].update({"in": [1]}), "reads value 1, which is not made before it"),
        (lambda document: document["steps"][0].update({"in": [-1]}), "reads value -1, which is not made before it"),
        (lambda document: document["steps"][0].update({"in": [[]]}), r"reads value \[\], which is not made before"),
        (lambda document: document["steps"][0].update(shift=31), "shift must be an integer from 0 to 30, got 31"),
        (lambda document: document["steps"][0].update(groups=3), "groups must divide 2 channels and 6 filters, got 3"),
        (lambda document: document["steps"][0].update(kernel=[3, 256]), "kernel must be 2 integers from 1 to 255"),
        (lambda document: document["steps"][0].update(kernel=[9, 3]), r"step 1 \(layer\): "),
        (lambda document: document["steps"][0].update(pool=[9, 9]), r"pool \[9, 9\] is larger than the result"),
        (lambda document: document["steps"][0].update(residual_multiplier=3), "residual_multiplier belongs to a layer"),
        (lambda document: document["steps"][0].update(flatten=True), "a layer that flattens its input sees one pixel"),
        (lambda document: document["steps"][0].update(out=None), "pool is for convolutions that make bytes"),
        (lambda document: document["steps"][5].update(out=None), "the outputs are sums without a ReLU or a residual"),
        (lambda document: document["steps"][-1]["in"].append(1), "residual_multiplier belongs to a layer"),
        (lambda document: document["steps"][-1].update(out={"type": "int8", "scale": 1.0}), "the last step, a layer"),
        (lambda document: document["steps"][-1].update(out={"type": "int9", "scale": 1.0}), "out.type must be one of"),
        (lambda document: document["steps"].pop(), "the last step, a layer, makes the outputs"),
        (lambda document: find(document, "maxpool")["out"].update(scale=4.0), "have the type of the input"),
        (
            lambda document: find(document, "maxpool").update(padding=[3, 0, 0, 0]),
            "padding must be smaller than kernel",
        ),
        (lambda document: find(document, "mean").update(multiplier=2**15), "multiplier must be an integer from -32767"),
        (lambda document: find(document, "add").update(offset=2**31), "offset must be an integer from -2147483647"),
        (lambda document: find(document, "add").update({"in": [0, 1]}), "both values must have one shape"),
        (lambda document: find(document, "join").update(shifts=[0]), "shifts must be 2 integers from 0 to 30"),
        (lambda document: find(document, "join").update({"in": [0, 3]}), "must have one height and width"),
        (lambda document: find(document, "join").update(after=2**16), "after must be an integer from 0 to 65535"),
    ],
)
def test_a_damaged_document_is_refused_by_the_name_of_the_damage(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    program = integer_program()
    document = json.loads(program.to_json())
    change(document)
    with pytest.raises(FormatError, match=message):
        IntegerProgram.from_json(json.dumps(document), program.tensors)


def find(document: dict[str, Any], kind: str) -> dict[str, Any]:
    """The first step of a kind."""
    found: dict[str, Any] = next(step for step in document["steps"] if step["step"] == kind)
    return found


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("step1.weight", None, r"step 1 \(layer\): tensor 'step1.weight' is missing"),
        ("step9.weight", np.zeros(1, np.uint8), "no step uses tensor 'step9.weight'"),
        (
            "step1.weight",
            np.zeros((2, 1), np.float32),
            r"must be uint8 bits or int8 numbers in rows, got float32 \[2, 1\]",
        ),
        ("step1.weight", np.zeros((2, 2), np.uint8), "weight must have rows of 1 bytes for 3 bits"),
        ("step1.weight", np.zeros((2, 2), np.int8), "weight must have rows of 3 bytes for 3 numbers"),
        ("step1.weight", np.full((2, 1), 8, np.uint8), "pad bits that are not zero"),
        ("step1.weight", np.zeros((0, 1), np.uint8), "the number of filters must be an integer from 1"),
        ("step1.multipliers", np.zeros(2, np.int32), r"multipliers must be int16 \[2\], got int32 \[2\]"),
        ("step1.multipliers", np.full(2, -(2**15), np.int16), "multipliers must be above -32768"),
        ("step1.offsets", np.zeros(3, np.int32), r"offsets must be int32 \[2\], got int32 \[3\]"),
        ("step1.offsets", np.full(2, -(2**31), np.int32), "offsets must be above -2147483648"),
    ],
)
def test_a_damaged_tensor_is_refused_by_name(name: str, tensor: npt.NDArray[Any] | None, message: str) -> None:
    program = tiny()
    tensors = {key: value for key, value in program.tensors.items() if key != name}
    if tensor is not None:
        tensors[name] = tensor
    with pytest.raises(FormatError, match=message):
        IntegerProgram.from_json(program.to_json(), tensors)


def sums(terms: int, weight: int, **changes: Any) -> Layer:
    """A dense layer of one filter whose weights are all the same, with the largest multiplier."""
    signs = np.packbits(np.ones((1, terms), np.uint8), axis=1, bitorder="little")
    numbers: dict[str, Any] = {
        "weight": signs if weight == 1 else np.full((1, terms), weight, np.int8),
        "multipliers": np.array([32767], np.int16),
        "offsets": np.zeros(1, np.int32),
        "shift": 0,
    }
    return layer(**{**numbers, **changes})


def test_outputs_that_could_exceed_32_bits_are_refused() -> None:
    most = (2**31 - 1) // (255 * 32767)
    fits = tiny(input_shape=(most,), steps=[sums(most, 1)])
    assert fits.run(np.full((1, most), 255)).tolist() == [[255 * 32767 * most]]
    assert tiny(input_shape=(most + 1,), steps=[sums(most + 1, 1, shift=1)])
    for step in (sums(most + 1, 1), sums(most + 1, 1, offsets=np.array([-(2**23)], np.int32))):
        with pytest.raises(FormatError, match=r"step 1 \(layer\): its outputs may exceed 32 bits"):
            tiny(input_shape=(most + 1,), steps=[step])


def test_sums_and_results_before_the_clamp_that_could_exceed_32_bits_are_refused() -> None:
    most = (2**32 - 1) // (255 * 127 * 32767)
    last = sums(1, 1, inputs=(1,), multipliers=np.ones(1, np.int16))
    fits = tiny(input_shape=(most,), steps=[sums(most, 127, out=PIXELS), last])
    assert fits.run(np.full((1, most), 255)).tolist() == [[255]]
    with pytest.raises(FormatError, match=r"step 1 \(layer\): its results may exceed 32 bits before they are clamped"):
        tiny(input_shape=(most + 1,), steps=[sums(most + 1, 127, out=PIXELS), last])
    terms = 2**31 // 510 + 1  # in the kernels of one bit, twice the sum of all bytes has 32 bits
    with pytest.raises(FormatError, match="its sums may exceed 32 bits"):
        tiny(input_shape=(65535, 255, 1), steps=[sums(65535 * 65, 1, flatten=False, kernel=(65, 1))])
    assert terms < 65535 * 65


def test_a_program_beyond_the_limits_of_size_is_refused_before_it_takes_memory() -> None:
    weight = np.array([[1]], np.uint8)
    numbers = {"multipliers": np.ones(1, np.int16), "offsets": np.zeros(1, np.int32)}
    with pytest.raises(FormatError, match="a size of the result must be an integer from 1 to 65535"):
        tiny(
            input_shape=(1, 65535, 1),
            steps=[layer(weight=weight, flatten=False, padding=(255, 0, 255, 0), **numbers)],
        )
    with pytest.raises(FormatError, match="values exceed the limit of 268435456 numbers per example"):
        tiny(input_shape=(1, 65535, 65535), steps=[layer(weight=weight, flatten=False, **numbers)])
