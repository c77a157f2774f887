"""Every installed engine computes the outputs of the program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from signwise.bench.engines import PRECISIONS, Engine, Precision
from signwise.bench.engines.onnx import OnnxRuntime
from signwise.bench.isolated import ENGINES, run_isolated
from signwise.bench.network import Network, random_input
from signwise.errors import SignwiseError

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
    examples = random_input(network.float32, 3)
    path = engine.convert(network, precision, tmp_path)
    done = run_isolated(engine, precision, path, examples, threads=1)
    expected = network.float32.reference(examples)
    assert np.abs(done.outputs - expected).max() <= TOLERANCE[precision] * np.abs(expected).max()
    assert done.peak_bytes > 10_000_000


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
