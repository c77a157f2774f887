"""The browser runtime in Node: the answers are those of the native library, and damaged files are refused."""

from __future__ import annotations

import json
import math
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import signwise as sw
from signwise import datasets, shipped
from signwise.program import operations as ops
from signwise.program.checks import Input
from signwise.program.operations import activations

HERE = Path(__file__).parent
WASM = HERE.parent.parent / "web" / "signwise.wasm"
pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not WASM.exists(), reason="needs node, and signwise.wasm from make wasm"
)
LENET5 = shipped.resolve("lenet5-mnist-1bit")


def node(script: str, *arguments: object) -> Any:
    """What a script beside this file prints."""
    command = ["node", str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def run_in_node(model: Path, folder: Path, *inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """The outputs of a model; float32 or int32 inputs as the program declares them."""
    paths = []
    for number, examples in enumerate(inputs):
        paths.append(folder / f"input{number}")
        paths[-1].write_bytes(examples.astype("<i4" if examples.dtype.kind == "i" else "<f4").tobytes())
    outputs = node("run_model.mjs", model, folder / "outputs", *paths)["outputs"]
    numbers, results, end = np.fromfile(folder / "outputs", "<f4"), [], 0
    for output in outputs:
        shape = (len(inputs[0]), *output["shape"])
        begin, end = end, end + math.prod(shape)
        results.append(numbers[begin:end].view("<i4" if output["type"] == "int32" else "<f4").reshape(shape))
    assert end == len(numbers)
    return results


@pytest.mark.slow
def test_a_thousand_test_images_get_the_class_and_the_scores_of_the_native_library(tmp_path: Path) -> None:
    images = datasets.load("mnist").test_images[:1000]
    (found,), expected = run_in_node(LENET5, tmp_path, images), sw.load(LENET5, threads=1)(images)
    assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def random_program(seed: int) -> sw.Program:
    """A program with most kinds of operations: a residual block, pools, joined branches and a softmax."""
    generator = np.random.default_rng(seed)
    tensors = {
        "first": generator.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "bits": generator.integers(0, 256, (8, 9), np.uint8),
        "scale": generator.uniform(0.05, 0.2, 8).astype(np.float32),
        "bias": generator.normal(size=8).astype(np.float32),
        "dense": generator.normal(size=(5, 24)).astype(np.float32),
    }
    window: dict[str, Any] = {"kernel": (3, 3), "stride": (1, 1), "padding": (1, 1, 1, 1)}
    operations = (
        ops.Conv(inputs=(0,), weight="first", bits=32, out_channels=8, relu=True, **window),
        ops.Conv(inputs=(1, 1), weight="bits", bits=1, out_channels=8, scale="scale", bias="bias", relu=True, **window),
        ops.AvgPool(inputs=(2,), count_include_pad=False, **window),
        ops.MaxPool(inputs=(2,), **window),
        ops.Add(inputs=(3, 4), relu=False),
        ops.Affine(inputs=(5,), scale="scale", bias="bias"),
        ops.PadChannels(inputs=(6,), before=3, after=5),
        ops.Concat(inputs=(7, 1)),
        ops.GlobalPool(inputs=(8,)),
        ops.Dense(inputs=(9,), weight="dense", bits=32, out_features=5, in_features=24),
        ops.Softmax(inputs=(10,)),
    )
    return sw.Program(input_shape=(3, 7, 9), ops=operations, output=11, tensors=tensors)


def test_a_program_of_many_operations_gives_the_outputs_of_the_reference(tmp_path: Path) -> None:
    program = random_program(3)
    program.save(tmp_path / "net.sw")
    examples = np.random.default_rng(4).normal(size=(3, 3, 7, 9)).astype(np.float32)
    (found,) = run_in_node(tmp_path / "net.sw", tmp_path, examples)
    np.testing.assert_allclose(found, program.reference(examples), rtol=1e-4, atol=1e-5)


def modern_program() -> sw.Program:
    """Every kind of operation that came with version 2 of the file, on tokens and an image."""
    generator = np.random.default_rng(5)

    def floats(*shape: int) -> npt.NDArray[np.float32]:
        return generator.normal(size=shape).astype(np.float32)

    tensors = {
        "words": floats(11, 8), "norm": floats(8), "shift": floats(8), "place": floats(6, 8), "factor": floats(8),
        "slope": floats(3), "edge": floats(3), "up": floats(4, 3, 2, 2),
        "bits": generator.integers(0, 256, (8, 1), np.uint8),
    }  # fmt: skip
    made = [
        ops.Embedding(inputs=(0,), weight="words", rows=11, width=8),  # 2: (6, 8)
        ops.Constant(inputs=(), tensor="place", shape=(6, 8)),
        ops.Arithmetic(inputs=(2, 3), function="add"),
        ops.Normalize(inputs=(4,), axes=(1,), epsilon=2.0**-10, scale="norm", bias="shift"),
        ops.Dense(inputs=(5,), weight="bits", bits=1, out_features=8, in_features=8, scale="norm"),
        ops.Activation(inputs=(6,), function="elu", numbers=(1.5, 1.0, 0.5)),
        ops.Arithmetic(inputs=(7,), function="multiply", operand="factor", shape=(8,), swapped=True),
        ops.Reshape(inputs=(8,), shape=(6, 2, 4)),
        ops.Transpose(inputs=(9,), axes=(1, 0, 2)),  # 10: (2, 6, 4)
        ops.Attention(inputs=(10, 10, 10), scale=0.5, causal=True),
        ops.Matmul(inputs=(11, 11), transpose_second=True, scale=0.25),  # 12: (2, 6, 6)
        ops.Softmax(inputs=(12,), axis=2, log=True),
        ops.Slice(inputs=(13,), starts=(0, 1, 0), stops=(2, 6, 6), steps=(1, 2, 3)),  # 14: (2, 3, 2)
        ops.Reduce(inputs=(14,), function="max", axes=(1,), keep=True),  # 15: (2, 1, 2)
        ops.Expand(inputs=(15,), shape=(2, 3, 2)),
        ops.Concat(inputs=(14, 16), axis=2),
        ops.ArgMax(inputs=(17,), axis=2),
        ops.PRelu(inputs=(1,), slope="slope"),  # 19: (3, 5, 4)
        ops.Pad(inputs=(19,), before=(0, 1, 2), after=(0, 2, 1), mode="reflect"),  # 20: (3, 8, 7)
        ops.Resize(inputs=(20,), size=(4, 14), mode="bilinear", ratios=(2.0, 0.5)),
        ops.AdaptivePool(inputs=(21,), size=(3, 5), function="average"),
        ops.ConvTranspose(
            inputs=(22,), weight="up", bits=32, out_channels=4, kernel=(2, 2), stride=(2, 2), output_padding=(1, 0)
        ),
        ops.Sign(inputs=(19,), threshold="edge"),
    ]
    given = (Input(shape=(6,), type="int32"), Input(shape=(3, 5, 4)))
    return sw.Program(inputs=given, ops=made, outputs=(17, 18, 23, 24), tensors=tensors)


def test_every_operation_of_version_2_gives_the_outputs_of_the_reference(tmp_path: Path) -> None:
    program = modern_program()
    assert program.version == 2
    new = {kind for kind, operation in ops.KINDS.items() if operation.since == 2}
    assert new == new & {operation.kind for operation in program.ops}
    program.save(tmp_path / "net.sw")
    generator = np.random.default_rng(6)
    tokens = generator.integers(0, 11, (3, 6)).astype(np.int32)
    images = generator.normal(size=(3, 3, 5, 4)).astype(np.float32)
    found = run_in_node(tmp_path / "net.sw", tmp_path, tokens, images)
    for output, expected in zip(found, program.reference(tokens, images), strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-4)


def test_the_tables_of_the_module_have_every_operation_with_its_attributes() -> None:
    script = "const t = await import(process.argv[1]); console.log(JSON.stringify([t.KINDS, t.FUNCTIONS]))"
    command = ["node", "--input-type=module", "-e", script, str(WASM.parent / "operations.js")]
    kinds, functions = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    for kind, operation in ops.KINDS.items():
        number, attributes = kinds.pop(kind)
        names = [attribute.rstrip("?").partition(":")[0] for attribute in attributes.split()]
        absent = {attribute.partition(":")[0] for attribute in attributes.split() if attribute.endswith("?")}
        assert (number, sorted(names)) == (operation.number, sorted(operation.attributes())), kind
        assert absent == set(operation.added_attributes), kind
    assert not kinds
    assert functions["activation"].split() == list(activations.FUNCTIONS)


def test_eight_bit_activations_give_the_outputs_of_the_native_library(tmp_path: Path) -> None:
    images = datasets.load("mnist").test_images[:64]
    program = sw.Program.load(LENET5).quantize(images)
    program.save(tmp_path / "net.sw")
    (found,), expected = run_in_node(tmp_path / "net.sw", tmp_path, images), program.run(images, threads=1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def damaged() -> dict[str, tuple[bytes, str]]:
    """Files that must be refused, and a part of the message."""
    good = LENET5.read_bytes()
    length = struct.unpack("<Q", good[:8])[0]
    header, rest = good[8 : 8 + length], good[8 + length :]

    def changed(old: bytes, new: bytes) -> bytes:
        assert old in header
        edited = header.replace(old, new)
        return struct.pack("<Q", len(edited)) + edited + rest

    return {
        "empty": (b"", "too short"),
        "zip": (b"PK\x03\x04" * 10, "header"),
        "cut": (good[:-1], "damaged or cut short"),
        "longer": (good + b"\0", "belong to no tensor"),
        "huge header": (struct.pack("<Q", 2**40) + good[8:], "the limit is"),
        "short header": (struct.pack("<Q", len(good)) + good[8:], "cut short"),
        "no JSON": (struct.pack("<Q", 8) + b"notjson!", "not valid JSON"),
        "version": (changed(b'\\"version\\":1', b'\\"version\\":9'), "version 9"),
        "kind": (changed(b'\\"maxpool\\"', b'\\"minpool\\"'), "minpool is unknown"),
        "attribute": (changed(b'\\"relu\\":true', b'\\"rely\\":true'), "lacks relu"),
        "tensor name": (
            changed(b'\\"network.conv2.weight\\"', b'\\"network.conv3.weight\\"'),
            "is missing from the file",
        ),
        "wrong size": (changed(b'\\"out_channels\\":50', b'\\"out_channels\\":51'), "operation 3 (conv)"),
        "later value": (changed(b'\\"in\\":[5]', b'\\"in\\":[7]'), "operation 5 (flatten)"),
        "huge size": (changed(b'\\"out_features\\":500', b'\\"out_features\\":5000000000'), "operation 6 (dense)"),
        "integers": (
            sw.Program.load(LENET5).to_integers(np.zeros((1, 1, 28, 28))).encode(),
            "a program in integers alone, which microcontrollers run: load the file that it was made from",
        ),
        "dtype": (changed(b'"dtype":"U8"', b'"dtype":"I8"'), "must have dtype"),
    }


def test_damaged_files_are_refused_with_the_reason(tmp_path: Path) -> None:
    files = damaged()
    paths = []
    for name, (data, _) in files.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    found = node("load_files.mjs", *paths, LENET5)
    assert found.pop() is None, "the undamaged file loads after all of these"
    for (name, (_, reason)), error in zip(files.items(), found, strict=True):
        assert error is not None, f"{name} was loaded"
        assert error[0] == "FormatError" and reason in error[1], f"{name}: {error}"


def test_wrong_calls_are_refused_by_name_and_the_model_still_runs() -> None:
    printed = node("misuse.mjs", LENET5)
    reasons = ("a multiple of 784", "a multiple of 784", "must be a Float32Array", "1 inputs, got 2", "closed")
    for reason, message in zip(reasons, printed["refused"], strict=True):
        assert reason in message
    assert printed["classes"] == 10 and printed["memory"] == 0


def test_the_runtime_stays_small_on_the_way_to_a_visitor() -> None:
    assert WASM.stat().st_size < 300_000
