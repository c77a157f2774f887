"""ONNX Runtime is the judge of exported models: its outputs must be those of the program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

import signwise as sw
from signwise.errors import SignwiseError
from signwise.export import to_onnx
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.operations import pack_signs

Array = npt.NDArray[Any]

UINT8 = ops.Quantized(type="uint8", scale=0.25)
INT8 = ops.Quantized(type="int8", scale=0.125)


def outputs(program: Program, examples: Array) -> Array:
    onnx.checker.check_model(to_onnx(program), full_check=True)
    session = onnxruntime.InferenceSession(to_onnx(program), providers=["CPUExecutionProvider"])
    found: Array = session.run(["output"], {"input": examples})[0]
    return found


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def signs(rows: int, terms: int) -> Array:
    return pack_signs(np.random.default_rng(rows).choice([-1, 1], (rows, terms)))


def conv(shape: tuple[int, int, int], bits: int, **options: Any) -> Program:
    """A convolution to 6 filters with scale and bias, of 3x2 windows."""
    groups = options.get("groups", 1)
    terms = shape[0] // groups * 6
    weight = signs(6, terms) if bits == 1 else numbers(6, shape[0] // groups, 3, 2)
    layer = ops.Conv(inputs=(0,), weight="w", bits=bits, scale="s", bias="b", out_channels=6, kernel=(3, 2), **options)
    tensors = {"w": weight, "s": numbers(6, seed=1), "b": numbers(6, seed=2)}
    return Program(input_shape=shape, ops=(layer,), tensors=tensors, output=1)


@pytest.mark.parametrize("bits", [1, 32])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"relu": True},
        {"padding": (1, 0, 2, 1)},
        {"stride": (2, 3), "padding": (1, 1, 1, 1)},
        {"dilation": (2, 1)},
        {"groups": 2},
        {"out": UINT8, "relu": True},
        {"out": INT8},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_a_convolution_means_the_same_in_onnx(bits: int, options: dict[str, Any]) -> None:
    program = conv((4, 9, 8), bits, **options)
    examples = numbers(3, 4, 9, 8)
    assert outputs(program, examples) == pytest.approx(program.reference(examples), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("bits", [1, 32])
def test_a_dense_layer_with_a_residual_means_the_same_in_onnx(bits: int) -> None:
    weight = signs(7, 7) if bits == 1 else numbers(7, 7)
    layer = ops.Dense(
        inputs=(0, 0), weight="w", bits=bits, scale="s", bias="b", relu=True, out_features=7, in_features=7
    )
    tensors = {"w": weight, "s": numbers(7, seed=1), "b": numbers(7, seed=2)}
    program = Program(input_shape=(7,), ops=(layer,), tensors=tensors, output=1)
    examples = numbers(5, 7)
    assert outputs(program, examples) == pytest.approx(program.reference(examples), rel=1e-5, abs=1e-6)


OTHERS: dict[str, tuple[ops.Operation, ...]] = {
    "relu": (ops.Relu(inputs=(0,)),),
    "add": (ops.Add(inputs=(0, 0), relu=True),),
    "maxpool": (ops.MaxPool(inputs=(0,), kernel=(3, 2), stride=(2, 1), padding=(1, 0, 2, 1)),),
    "avgpool": (ops.AvgPool(inputs=(0,), kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1)),),
    "avgpool that skips the padding": (
        ops.AvgPool(inputs=(0,), kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1), count_include_pad=False),
    ),
    "globalpool": (ops.GlobalPool(inputs=(0,)),),
    "pad_channels": (ops.PadChannels(inputs=(0,), before=2, after=3),),
    "flatten": (ops.Flatten(inputs=(0,)),),
    "concat": (ops.Relu(inputs=(0,)), ops.Concat(inputs=(0, 1, 0))),
    "softmax": (ops.Flatten(inputs=(0,)), ops.Softmax(inputs=(1,))),
    "vector paddings": (ops.GlobalPool(inputs=(0,)), ops.PadChannels(inputs=(1,), before=0, after=4)),
    "8 bits": (ops.Relu(inputs=(0,), out=UINT8), ops.MaxPool(inputs=(1,), kernel=(2, 2), stride=(2, 2), out=UINT8)),
    "a value in the middle": (ops.Relu(inputs=(0,)), ops.Flatten(inputs=(0,))),
}


@pytest.mark.parametrize("operations", OTHERS.values(), ids=OTHERS.keys())
def test_every_other_operation_means_the_same_in_onnx(operations: tuple[ops.Operation, ...]) -> None:
    program = Program(input_shape=(3, 7, 6), ops=operations, tensors={}, output=len(operations))
    examples = numbers(2, 3, 7, 6)
    assert outputs(program, examples) == pytest.approx(program.reference(examples), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("shape", [(3, 4, 5), (3,)])
def test_an_affine_means_the_same_in_onnx_for_images_and_vectors(shape: tuple[int, ...]) -> None:
    layer = ops.Affine(inputs=(0,), scale="s", bias="b", relu=True)
    tensors = {"s": numbers(3, seed=1), "b": numbers(3, seed=2)}
    program = Program(input_shape=shape, ops=(layer,), tensors=tensors, output=1)
    examples = numbers(4, *shape)
    assert outputs(program, examples) == pytest.approx(program.reference(examples), rel=1e-5, abs=1e-6)


def test_the_kinds_tried_here_are_all_that_there_are() -> None:
    tried = {operation.kind for operations in OTHERS.values() for operation in operations}
    assert tried | {"conv", "dense", "affine"} == {
        kind for kind, operation in ops.KINDS.items() if operation.since == 1
    }


def test_the_batch_is_symbolic_and_the_text_about_the_network_goes_along() -> None:
    program = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1, about={"dataset": "mnist"})
    model = onnx.load_from_string(to_onnx(program))
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert [(entry.key, entry.value) for entry in model.metadata_props] == [("dataset", "mnist")]


def test_a_file_is_written_with_the_same_bytes(tmp_path: Path) -> None:
    program = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
    sw.export.onnx(program, tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").read_bytes() == to_onnx(program)
    with pytest.raises(SignwiseError, match="cannot write"):
        sw.export.onnx(program, tmp_path / "absent" / "net.onnx")


def test_without_onnx_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    program = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
    with pytest.raises(SignwiseError, match="pip install onnx"):
        to_onnx(program)
