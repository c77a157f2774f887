"""Every engine that is installed gives the answers of the program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from signwise.bench import ENGINES
from signwise.bench.engine import PRECISIONS, Engine, Precision
from signwise.bench.network import Network, from_program, random_input, with_float_weights, without_quantization
from signwise.bench.trial import trial
from signwise.errors import SignwiseError
from signwise.program.program import Program

# How far 8-bit answers may be from those in float32: each engine rounds at other places.
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
    # Where a virtual machine announces AMX and does not execute it, oneDNN must not be let near it.
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    engine = installed(ENGINES[name])
    if precision not in engine.precisions:
        pytest.skip(f"{engine.title} has no {precision}")
    examples = random_input(network.float32, 3)
    path = engine.convert(network, precision, tmp_path)
    done = trial(engine, precision, path, examples, threads=1)
    expected = network.float32.reference(examples)
    assert np.abs(done.answers - expected).max() <= TOLERANCE[precision] * np.abs(expected).max()
    assert done.peak_bytes > 10_000_000


@pytest.mark.parametrize("name", ["pytorch", "signwise"])
def test_an_engine_converts_once(name: str, network: Network, tmp_path: Path) -> None:
    engine = installed(ENGINES[name])
    path = engine.convert(network, "float32", tmp_path)
    before = path.stat().st_mtime_ns
    assert engine.convert(network, "float32", tmp_path) == path
    assert path.stat().st_mtime_ns == before


def test_an_engine_that_fails_says_why(network: Network, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.sw"
    damaged.write_bytes(b"nothing of the kind")
    with pytest.raises(SignwiseError, match=r"damaged\.sw"):
        trial(ENGINES["numpy"], "float32", damaged, random_input(network.float32, 1), threads=1)


def test_a_crash_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import signwise.bench.trial as module

    crash = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    real = module.subprocess.run
    monkeypatch.setattr(module.subprocess, "run", lambda command, **how: real([command[0], "-c", crash], **how))
    with pytest.raises(SignwiseError, match="crashed here: Illegal instruction"):
        trial(ENGINES["numpy"], "float32", tmp_path, np.zeros((1, 1), np.float32), threads=1)


def test_float_weights_change_the_bytes_and_not_the_answers(program: Program) -> None:
    float_program = with_float_weights(program)
    examples = random_input(program, 2)
    assert float_program.reference(examples) == pytest.approx(program.reference(examples), rel=1e-5)
    signs = 8 * 72 + 12 * 72
    scales = 8 + 12
    assert float_program.nbytes == program.nbytes - signs // 8 + 4 * signs - 4 * scales


def test_a_network_from_an_8_bit_file_has_the_float32_form_too(network: Network, program: Program) -> None:
    assert network.int8 is not None
    again = from_program(network.int8)
    assert again.int8 is network.int8
    assert without_quantization(network.int8).ops == program.ops == again.float32.ops


def test_the_kernels_are_not_measured_where_numpy_steps_in(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signwise.runtime.native.library", lambda: None)
    path = ENGINES["signwise"].convert(network, "float32", tmp_path)
    with pytest.raises(SignwiseError, match="the native kernels cannot be loaded here"):
        ENGINES["signwise"].open(path, "float32", batch=1, threads=1)
