"""The .sw file: golden bytes, one spelling, and every damage refused by name."""

from __future__ import annotations

import json
import os
import random
import runpy
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load as load_tensors

from signwise.errors import FormatError, SignwiseError
from signwise.program import IntegerProgram, Program
from signwise.program import operations as ops
from signwise.program.checks import Input
from signwise.program.program import decode_any

fuzz: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "fuzz_file.py"))


def tiny() -> Program:
    dense = ops.Dense(inputs=(0,), weight="w", bits=1, out_features=2, in_features=3, bias="b", relu=True)
    tensors: dict[str, npt.NDArray[Any]] = {"w": np.array([[5], [2]], np.uint8), "b": np.array([0.5, -1], np.float32)}
    return Program(input_shape=(3,), ops=(dense,), tensors=tensors, output=1, about={"name": "tiny"})


GOLDEN_HEADER = (
    '{"__metadata__":{"signwise":"{\\"about\\":{\\"name\\":\\"tiny\\"},\\"input\\":{\\"shape\\":[3]},\\"ops\\":[{'
    '\\"bias\\":\\"b\\",\\"bits\\":1,\\"in\\":[0],\\"in_features\\":3,\\"op\\":\\"dense\\",\\"out\\":null,'
    '\\"out_features\\":2,\\"relu\\":true,\\"scale\\":null,\\"weight\\":\\"w\\"}],\\"output\\":1,\\"version\\":1}"},'
    '"b":{"data_offsets":[0,8],"dtype":"F32","shape":[2]},"w":{"data_offsets":[8,10],"dtype":"U8","shape":[2,1]}}'
)


def test_the_bytes_are_golden() -> None:
    header = GOLDEN_HEADER.encode() + b" " * (-len(GOLDEN_HEADER) % 8)
    expected = len(header).to_bytes(8, "little") + header + bytes.fromhex("0000003f 000080bf 05 02")
    assert tiny().encode() == expected
    assert Program.decode(expected).encode() == expected


def test_bytes_do_not_depend_on_the_order_of_tensors() -> None:
    program = fuzz["sample_program"]()
    backwards = {name: program.tensors[name] for name in reversed(list(program.tensors))}
    assert Program.from_json(program.to_json(), backwards).encode() == program.encode()


def test_the_container_is_plain_safetensors() -> None:
    program = fuzz["sample_program"]()
    tensors = load_tensors(program.encode())
    assert set(tensors) == set(program.tensors)
    for name, tensor in program.tensors.items():
        np.testing.assert_array_equal(tensors[name], tensor)


def test_a_saved_program_loads_equal(tmp_path: Path) -> None:
    program = fuzz["sample_program"]()
    program.save(tmp_path / "net.sw")
    again = Program.load(tmp_path / "net.sw")
    assert again.ops == program.ops and again.to_json() == program.to_json()
    assert [path.name for path in tmp_path.iterdir()] == ["net.sw"], "no temporary file is left"


def test_loading_needs_no_torch(tmp_path: Path) -> None:
    tiny().save(tmp_path / "net.sw")
    code = "import sys; sys.modules['torch'] = None; from signwise.program import Program; Program.load(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, tmp_path / "net.sw"], check=True)


def with_header(change: Callable[[dict[str, Any]], object]) -> bytes:
    data = tiny().encode()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "too short for a .sw file: 0 bytes"),
        (b"PK\x03\x04rest of a zip", "perhaps a PyTorch checkpoint"),
        (b"\x80\x04\x95pickle bytes", "not a .sw file: a header of"),
        (tiny().encode()[:100], "cut short: the header needs"),
        (tiny().encode()[:-1], "damaged or cut short"),
        (tiny().encode() + b"\0", "damaged or cut short"),
        ((4).to_bytes(8, "little") + b"\xff\xff\xff\xff", "the header is not valid JSON"),
        ((4).to_bytes(8, "little") + b"[1] ", "the header must be a JSON object"),
        ((15).to_bytes(8, "little") + b'{"a":1,"a":2}  ', "a name is repeated"),
        ((2).to_bytes(8, "little") + b"{}", "a safetensors file without a program"),
        (with_header(lambda header: header["__metadata__"].update(more="x")), "must have the key 'signwise' alone"),
        (
            with_header(lambda header: header["b"].update(dtype="F64")),
            "tensor 'b' must have dtype F32, I32, I16, I8 or U8",
        ),
        (with_header(lambda header: header["b"].update(data_offsets=[0, 4])), "damaged or cut short"),
        (with_header(lambda header: header["b"].update(data_offsets=[2, 10])), "damaged or cut short"),
        (with_header(lambda header: header["b"].update(shape=[2**62, 2**62])), "damaged or cut short"),
        (with_header(lambda header: header["b"].update(shape=[-1])), "damaged or cut short"),
    ],
)
def test_a_damaged_file_is_refused_by_the_kind_of_damage(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "net.sw").write_bytes(data)
    with pytest.raises(FormatError, match=r"net\.sw.*" + message):
        Program.load(tmp_path / "net.sw")


def test_a_newer_file_says_what_it_needs() -> None:
    data = tiny().encode().replace(b'\\"version\\":1', b'\\"version\\":7')
    with pytest.raises(FormatError, match="needs a signwise that reads file version 7, this one reads versions up to"):
        Program.decode(data)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SignwiseError, match=r"cannot write .*net\.sw.*No such file or directory"):
        tiny().save(tmp_path / "absent" / "net.sw")
    with pytest.raises(SignwiseError, match="cannot write"):
        tiny().save(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SignwiseError, match=r"there is no file or shipped program .*absent\.sw"):
        Program.load(tmp_path / "absent.sw")
    with pytest.raises(SignwiseError, match="cannot read"):
        Program.load(tmp_path)


def is_refused(data: bytes) -> bool:
    try:
        decode_any(data)
    except FormatError as error:
        message = str(error)
    else:
        return False
    assert message.isprintable() and message.encode()  # a terminal may show it
    return True


def test_the_fuzzer_starts_from_every_operation_in_files_of_version_2() -> None:
    programs = [program() for program in fuzz["SEEDS"]]
    kinds = {operation.kind for program in programs if program.version == 2 for operation in program.ops}
    assert kinds == set(ops.KINDS)


@pytest.mark.parametrize("program", fuzz["ALL_SEEDS"], ids=lambda program: program.__name__)
def test_mutated_files_load_or_are_refused(program: Callable[[], Program | IntegerProgram]) -> None:
    data = program().encode()
    refused = sum(is_refused(fuzz["mutant"](data, seed)) for seed in range(1000))
    assert 600 < refused < 1000, "most mutants are refused, some are harmless"


def test_mutated_files_take_no_more_memory_than_they_justify() -> None:
    data = [program().encode() for program in fuzz["ALL_SEEDS"]]
    for file in data:  # what the fuzzer itself keeps
        fuzz["mutate_program"](file, random.Random(0))
    tracemalloc.start()
    try:
        for seed in range(3000, 3500):
            is_refused(fuzz["mutant"](data[seed % len(data)], seed))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**21


# The document


def conv(**changes: Any) -> ops.Conv:
    defaults = {"inputs": (0,), "weight": "weight", "bits": 1, "out_channels": 4, "kernel": (3, 3)}
    return ops.Conv(**{**defaults, **changes})


def one_layer(**changes: Any) -> Program:
    tensors = {"weight": np.zeros((4, 4), np.uint8)}
    defaults = {"input_shape": (3, 8, 8), "ops": (conv(),), "tensors": tensors, "output": 1}
    return Program(**{**defaults, **changes})


def test_json_has_one_spelling_and_comes_back_equal() -> None:
    quantized = ops.Quantized(type="uint8", scale=0.5)
    first = one_layer(ops=(conv(out=quantized),), about={"b": "second é", "a": "first"})
    text = first.to_json()
    again = Program.from_json(text, first.tensors)
    assert again.to_json() == text and again.ops == first.ops and again.about == first.about
    assert " " not in text.replace("second ", "") and text.isascii()
    assert text.index('"a":') < text.index('"b":')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update(version=4), "reads file version 4, this one reads versions up to 3: install"),
        (
            lambda document: document.update(version=3),
            "holds a program in integers alone: signwise.load, eval, inspect",
        ),
        (lambda document: document.update(version=2), "the program lacks 'inputs'"),
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
    whole = one_layer()
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


HEADER = 2**24 - 100


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":[' + b"[]," * (HEADER // 3 - 10) + b"0]}",
        b'{"__metadata__":{"signwise":"{\\"a\\":[' + b"{}," * (HEADER // 3 - 20) + b'0]}"}}',
        b"{" + b",".join(b'"%x":0' % i for i in range(HEADER // 12)) + b"}",
        b"[" * HEADER,
    ],
    ids=["lists", "lists in the program", "names", "depth"],
)
def test_a_huge_header_is_refused_at_little_cost(header: bytes) -> None:
    data = len(header).to_bytes(8, "little") + header
    tracemalloc.start()
    try:
        assert is_refused(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(data), "its bytes, its text and nothing more"


def test_commas_that_are_escaped_in_the_header_count_in_the_program() -> None:
    text = '{"a":[' + "\\u005b\\u005d\\u002c" * 2**18 + "0]}"
    header = ('{"__metadata__":{"signwise":"' + text.replace('"', '\\"') + '"}}').encode()
    with pytest.raises(FormatError, match="which no program needs"):
        Program.decode(len(header).to_bytes(8, "little") + header)


def test_the_largest_program_has_a_header_within_the_limits() -> None:
    widest = [ops.Concat(inputs=(0,) * 64) for _ in range(4096)]
    data = Program(input_shape=(1,), ops=tuple(widest), tensors={}, output=4096).encode()
    assert len(Program.decode(data).ops) == 4096


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.sw")
    for path in (tmp_path / "pipe.sw", Path("/dev/zero")):
        with pytest.raises(SignwiseError, match=r"cannot read .*: not a regular file"):
            Program.load(path)


@pytest.mark.parametrize("scale", ["-1" + "0" * 400, "1" + "0" * 400, "-1e400"])
def test_a_scale_beyond_all_floats_is_refused(scale: str) -> None:
    eight_bits = ops.Quantized(type="int8", scale=1.0)
    text = one_layer(ops=(conv(out=eight_bits),)).to_json().replace('"scale":1.0', f'"scale":{scale}')
    with pytest.raises(FormatError, match=r"out\.scale must be a number from 1e-30 to 1e30"):
        Program.from_json(text, one_layer().tensors)


def test_more_parts_than_a_program_can_have_are_refused_before_they_are_parsed() -> None:
    for text in ('{"a":[' + "[]," * 2**18 + "0]}", "[" * 2**18, "{" + ",".join(f'"{i}":0' for i in range(2**20)) + "}"):
        with pytest.raises(FormatError, match="which no program needs"):
            Program.from_json(text, {})


def tokens() -> Program:
    """The least that needs version 2: two inputs, one of tokens, and two outputs."""
    operations = (
        ops.Embedding(inputs=(0,), weight="w", rows=2, width=1),
        ops.Arithmetic(inputs=(2, 1), function="multiply"),
        ops.Activation(inputs=(3,), function="clip", numbers=(0.0, 6.0)),
    )
    inputs = [Input(shape=(3,), type="int32"), Input(shape=(1, 1))]
    table = np.array([[0.5], [-1]], np.float32)
    return Program(inputs=inputs, ops=operations, tensors={"w": table}, outputs=(4, 2))


GOLDEN_HEADER_2 = (
    '{"__metadata__":{"signwise":"{\\"about\\":{},\\"inputs\\":[{\\"shape\\":[3],\\"type\\":\\"int32\\"},'
    '{\\"shape\\":[1,1],\\"type\\":\\"float32\\"}],\\"ops\\":[{\\"in\\":[0],\\"op\\":\\"embedding\\",\\"out\\":null,'
    '\\"rows\\":2,\\"weight\\":\\"w\\",\\"width\\":1},{\\"function\\":\\"multiply\\",\\"in\\":[2,1],'
    '\\"op\\":\\"arithmetic\\",\\"operand\\":null,\\"out\\":null,\\"relu\\":false,\\"shape\\":null,'
    '\\"swapped\\":false},{\\"function\\":\\"clip\\",\\"in\\":[3],\\"numbers\\":[0.0,6.0],\\"op\\":\\"activation\\",'
    '\\"out\\":null}],\\"outputs\\":[4,2],\\"version\\":2}"},"w":{"data_offsets":[0,8],"dtype":"F32","shape":[2,1]}}'
)


def test_the_bytes_of_version_2_are_golden() -> None:
    header = GOLDEN_HEADER_2.encode() + b" " * (-len(GOLDEN_HEADER_2) % 8)
    expected = len(header).to_bytes(8, "little") + header + bytes.fromhex("0000003f 000080bf")
    assert tokens().encode() == expected
    assert Program.decode(expected).encode() == expected


def test_several_inputs_and_outputs_run_as_tuples() -> None:
    numbers, factor = np.array([[0, 1, 0]]), np.array([[[4.0]]])
    for program in (tokens(), tokens().session()):
        clipped, looked_up = program(numbers, factor)
        assert clipped.tolist() == [[[2], [0], [2]]] and looked_up.tolist() == [[[0.5], [-1], [0.5]]]
    with pytest.raises(SignwiseError, match="the program has 2 inputs, got 1 array"):
        tokens()(numbers)
    with pytest.raises(SignwiseError, match="the program has 2 inputs, not one"):
        _ = tokens().input_shape
    with pytest.raises(SignwiseError, match=r"as many examples, got \[1, 2\]"):
        tokens()(numbers, np.zeros((2, 1, 1)))
    with pytest.raises(SignwiseError, match="input 0 must hold whole numbers"):
        tokens()(numbers + 0.5, factor)


@pytest.mark.parametrize(
    "operation",
    [
        ops.Softmax(inputs=(0,), log=True),
        ops.Concat(inputs=(0, 0), axis=1),
        ops.Reshape(inputs=(0,), shape=(3, 8, 8)),
    ],
)
def test_a_file_of_version_1_holds_nothing_newer(operation: ops.Operation) -> None:
    program = Program(input_shape=(3, 8, 8), ops=(operation,), tensors={}, output=1)
    text = program.to_json()
    assert '"version":2' in text
    old = json.loads(text)
    old |= {"version": 1, "input": {"shape": [3, 8, 8]}, "output": 1}
    del old["inputs"], old["outputs"]
    with pytest.raises(FormatError, match=r"has an unknown|is not one of"):
        Program.from_json(json.dumps(old), {})
    with pytest.raises(FormatError, match="a file of version 1 with what only version 2 has"):
        Program.from_json(json.dumps(old | {"ops": [{"op": "softmax", "in": [0], "out": None}]}), {})


def test_a_program_without_anything_new_stays_version_1() -> None:
    assert '"version":1' in fuzz["sample_program"]().to_json()
