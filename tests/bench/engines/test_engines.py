"""Every installed engine computes the outputs of the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from signwise.bench.engines import PRECISIONS, Engine, Precision
from signwise.bench.engines.onnx import OnnxRuntime
from signwise.bench.isolated import ENGINES, run_isolated
from signwise.bench.network import Network, from_program, listed, random_input
from signwise.compiler.decoder import compile_decoder
from signwise.convert import binarize_
from signwise.errors import SignwiseError
from signwise.models import LlamaConfig, llama
from signwise.program import operations as ops
from signwise.program.program import Program

# How far outputs may be from float32, relative to the largest: 8-bit engines round in different places.
TOLERANCE = {"float32": 1e-5, "int8": 0.06}


def installed(engine: Engine) -> Engine:
    if missing := engine.missing():
        pytest.skip(f"{engine.title} needs {', '.join(missing)}")
    return engine


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_agrees_with_the_program_in_a_process_of_its_own(
    name: str, precision: Precision, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some virtual machines announce AMX but cannot execute it.
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    engine = installed(ENGINES[name])
    if precision not in engine.precisions:
        pytest.skip(f"{engine.title} has no {precision}")
    if not engine.suits(network):
        pytest.skip(f"{engine.title} takes other networks")
    examples = random_input(network.float32, 3)
    path = engine.convert(network, precision, tmp_path)
    done = run_isolated(engine, precision, path, examples, threads=1)
    expected = network.float32.reference(*listed(examples))
    assert np.abs(done.outputs - expected).max() <= TOLERANCE[precision] * np.abs(expected).max()
    assert done.peak_bytes > 10_000_000


@pytest.mark.parametrize("name", ["matmul2bits", "matmul4bits", "ggml"])
def test_a_peer_for_dense_layers_takes_one_dense_layer_alone(name: str, network: Network, tmp_path: Path) -> None:
    engine = installed(ENGINES[name])
    signs = ops.pack_signs(np.random.default_rng(0).choice([-1, 1], (64, 256)))
    layer = ops.Dense(inputs=(0,), weight="w", bits=1, out_features=64, in_features=256)
    dense = from_program(Program(input_shape=(256,), ops=(layer,), tensors={"w": signs}, output=1))
    assert not engine.suits(network)
    if not engine.suits(dense):
        pytest.skip(f"{engine.title} is not installed")
    path = engine.convert(dense, "int8", tmp_path)
    run = engine.open(path, "int8", batch=2, threads=2)
    examples = dense.batch(2)
    expected = dense.float32.reference(*listed(examples))
    assert np.abs(run(examples) - expected).max() <= 0.02 * np.abs(expected).max()


@pytest.mark.parametrize("name", [name for name in ENGINES if name not in ("matmul2bits", "matmul4bits", "ggml")])
def test_an_engine_takes_several_inputs_and_returns_the_first_output(name: str, tmp_path: Path) -> None:
    engine = installed(ENGINES[name])
    config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=1, max_position_embeddings=8)
    model = llama(config).eval()
    binarize_(model)
    network = from_program(compile_decoder(model))
    examples = network.batch(1)
    run = engine.open(engine.convert(network, "float32", tmp_path), "float32", batch=1, threads=1)
    expected: Any = network.float32.reference(*listed(examples))
    assert run(examples) == pytest.approx(expected[0], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", ["pytorch", "signwise"])
def test_an_engine_converts_once(name: str, network: Network, tmp_path: Path) -> None:
    engine = installed(ENGINES[name])
    path = engine.convert(network, "float32", tmp_path)
    before = path.stat().st_mtime_ns
    assert engine.convert(network, "float32", tmp_path) == path
    assert path.stat().st_mtime_ns == before


def test_numpy_is_not_measured_under_the_name_of_the_kernels(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signwise.runtime.native.library", lambda: None)
    path = ENGINES["signwise"].convert(network, "float32", tmp_path)
    with pytest.raises(SignwiseError, match="the native kernels cannot be loaded here"):
        ENGINES["signwise"].open(path, "float32", batch=1, threads=1)


def test_a_module_that_is_not_installed_is_missing() -> None:
    class Absent(OnnxRuntime):
        requires = ("numpy", "an_engine_that_exists_nowhere")

    assert Absent().missing() == ["an_engine_that_exists_nowhere"]
