"""Packed weights: small files whose optimized graphs and outputs are those of the float export."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import torch

import signwise as sw
from signwise.errors import SignwiseError
from signwise.export import to_onnx
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.operations import pack_signs

Array = npt.NDArray[Any]
LENET5 = Program.load("lenet5-mnist-1bit")


def run(model: bytes, examples: Array, optimized: Path | None = None) -> Array:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns that a file of optimized nodes is for this machine alone
    options.intra_op_num_threads = 1
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    found: Array = session.run(["output"], {"input": examples})[0]
    return found


def kinds(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def digits(count: int) -> Array:
    return sw.datasets.load("mnist").test_images[:count].astype(np.float32)


@pytest.fixture(scope="module")
def resnet18() -> Program:
    torch.manual_seed(0)
    model = sw.models.resnet18()
    sw.binarize_(model)
    return sw.compile(model, torch.zeros(1, 3, 32, 32))


def test_lenet5_is_20_times_smaller_and_runs_as_the_float_export_does(tmp_path: Path) -> None:
    packed, floats = to_onnx(LENET5), to_onnx(LENET5, packed=False)
    onnx.checker.check_model(packed, full_check=True)
    assert 20 * len(packed) <= len(floats)
    images = digits(50)
    np.testing.assert_array_equal(run(packed, images, tmp_path / "p.onnx"), run(floats, images, tmp_path / "f.onnx"))
    assert kinds(tmp_path / "p.onnx") == kinds(tmp_path / "f.onnx")


@pytest.mark.slow
def test_resnet18_is_30_times_smaller_and_runs_as_the_float_export_does(resnet18: Program, tmp_path: Path) -> None:
    packed, floats = to_onnx(resnet18), to_onnx(resnet18, packed=False)
    onnx.checker.check_model(packed, full_check=True)
    assert 30 * len(packed) <= len(floats)
    images = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
    np.testing.assert_array_equal(run(packed, images, tmp_path / "p.onnx"), run(floats, images, tmp_path / "f.onnx"))
    assert kinds(tmp_path / "p.onnx") == kinds(tmp_path / "f.onnx")


@pytest.mark.slow
def test_openvino_folds_the_packed_weights_and_gives_the_outputs_of_the_float_export() -> None:
    openvino = pytest.importorskip("openvino")
    core, images = openvino.Core(), digits(20)
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}

    def compiled(model: bytes) -> Any:
        return core.compile_model(core.read_model(model=model), "CPU", settings)

    packed, floats = compiled(to_onnx(LENET5)), compiled(to_onnx(LENET5, packed=False))
    np.testing.assert_allclose(packed([images])[0], floats([images])[0], rtol=1e-5, atol=1e-5)
    count, expected = (len(model.get_runtime_model().get_ops()) for model in (packed, floats))
    assert count == expected


def test_8_bit_layers_become_convolutions_of_integers(tmp_path: Path) -> None:
    program = LENET5.quantize(sw.datasets.load("mnist").train_images[:16])
    packed = to_onnx(program)
    onnx.checker.check_model(packed, full_check=True)
    assert 20 * len(packed) <= len(to_onnx(program, packed=False))
    images = digits(20)
    found, expected = run(packed, images, tmp_path / "p.onnx"), program.reference(images)
    made = kinds(tmp_path / "p.onnx")
    assert made["QLinearConv"] == 2 and not made.keys() & {"Gather", "Conv", "Cast", "Reshape", "Slice"}
    # A bias in whole steps may move a number across the boundary between two integers.
    np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
    assert (found.argmax(1) == expected.argmax(1)).all()


UINT8, UINT6 = ops.Quantized(type="uint8", scale=0.5), ops.Quantized(type="uint6", scale=0.5)


@pytest.mark.parametrize("terms", [3, 8, 9, 16])
@pytest.mark.parametrize("out", [None, UINT8, UINT6], ids=lambda out: out.type if out else "float32")
@pytest.mark.parametrize("scale", [0.5, -0.5, 0.0])
def test_packed_weights_of_any_length_and_scale_mean_the_same(
    terms: int, out: ops.Quantized | None, scale: float
) -> None:
    generator = np.random.default_rng(terms)
    tensors: dict[str, Array] = {
        "w": pack_signs(generator.choice([-1, 1], (5, terms))),
        "s": np.full(5, scale, np.float32),
        "b": np.arange(5, dtype=np.float32) / 2,  # a multiple of the steps, so that integers hold it exactly
    }
    first = ops.Relu(inputs=(0,), out=out)
    layer = ops.Dense(
        inputs=(1,), weight="w", bits=1, scale="s", bias="b", out_features=5, in_features=terms, out=out, relu=True
    )
    program = Program(input_shape=(terms,), ops=(first, layer), tensors=tensors, output=2)
    examples = generator.integers(0, 9, (7, terms)).astype(np.float32)
    np.testing.assert_allclose(run(to_onnx(program), examples), program.reference(examples), atol=1e-6)


def test_packed_weights_with_a_scale_per_block_mean_the_same() -> None:
    generator = np.random.default_rng(0)
    tensors: dict[str, Array] = {
        "w": pack_signs(generator.choice([-1, 1], (5, 24))),
        "s": generator.random((5, 3), np.float32),
    }
    layer = ops.Dense(inputs=(0,), weight="w", bits=1, out_features=5, in_features=24, blocks=3, block_scale="s")
    program = Program(input_shape=(24,), ops=(layer,), tensors=tensors, output=1)
    examples = generator.standard_normal((7, 24)).astype(np.float32)
    np.testing.assert_allclose(run(to_onnx(program), examples), program.reference(examples), rtol=1e-5, atol=1e-5)


def test_layers_that_share_a_weight_share_its_bytes() -> None:
    tensors = {"w": pack_signs(np.random.default_rng(0).choice([-1, 1], (256, 256)))}
    layer = ops.Dense(inputs=(0,), weight="w", bits=1, out_features=256, in_features=256)
    once = Program(input_shape=(256,), ops=(layer,), tensors=tensors, output=1)
    second = ops.Dense(inputs=(1,), weight="w", bits=1, out_features=256, in_features=256)
    twice = Program(input_shape=(256,), ops=(layer, second), tensors=tensors, output=2)
    assert len(to_onnx(twice)) - len(to_onnx(once)) < tensors["w"].nbytes / 8
    examples = np.ones((1, 256), np.float32)
    np.testing.assert_allclose(run(to_onnx(twice), examples), twice.reference(examples))


def test_a_model_is_compiled_on_the_way_and_needs_an_example(tmp_path: Path) -> None:
    model = sw.models.lenet5()
    sw.binarize_(model, skip=sw.last)
    sw.export.onnx(model, tmp_path / "net.onnx", torch.zeros(1, 1, 28, 28))
    assert (tmp_path / "net.onnx").stat().st_size < 100_000
    with pytest.raises(SignwiseError, match="needs example_input="):
        sw.export.onnx(model, tmp_path / "net.onnx")


def test_a_packed_model_gives_the_file_of_the_binary_one(tmp_path: Path) -> None:
    model = sw.models.lenet5().eval()
    sw.binarize_(model, skip=sw.last)
    files = []
    for name in ("binary.onnx", "packed.onnx"):
        sw.export.onnx(model, tmp_path / name, torch.zeros(1, 1, 28, 28))
        files.append((tmp_path / name).read_bytes())
        sw.pack_(model)
    assert files[0] == files[1]
