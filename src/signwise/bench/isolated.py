"""The engines, and how one of them runs one file in a process of its own.

    python -m signwise.bench.isolated ENGINE PRECISION MODEL INPUT THREADS OUTPUT

This measures the memory that the engine needs, and catches crashes before the engine joins the timing process: some
engines crash on processors that announce instructions which they cannot execute. Whatever this module imports counts
as memory of every engine, so it imports little.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise.bench.engines import Engine, Precision
from signwise.bench.engines.few_bits import Ggml, MatMul2Bits, MatMul4Bits
from signwise.bench.engines.mnn import Mnn
from signwise.bench.engines.onnx import OnnxRuntime, OpenVino
from signwise.bench.engines.pytorch import PyTorch
from signwise.bench.engines.signwise import Numpy, Signwise
from signwise.bench.network import listed
from signwise.bench.timing import peak_bytes
from signwise.errors import SignwiseError
from signwise.program.program import Examples

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Signwise(),
        PyTorch(),
        OnnxRuntime(),
        OpenVino(),
        Mnn(),
        MatMul2Bits(),
        MatMul4Bits(),
        Ggml(),
        Numpy(),
    )
}
"""Every engine by its name, ours first."""

_RUNS = 3  # engines may still allocate in their first runs


@dataclass(frozen=True, kw_only=True, eq=False)
class IsolatedRun:
    """What an isolated process reports.

    Args:
        outputs: the engine's outputs.
        peak_bytes: the peak memory of the whole process.
    """

    outputs: npt.NDArray[np.float32]
    peak_bytes: int


def run_isolated(engine: Engine, precision: Precision, model: Path, examples: Examples, threads: int) -> IsolatedRun:
    """Run a converted file in a fresh process.

    Args:
        engine: one of :data:`ENGINES`.
        precision: the precision of the file.
        model: the file that the engine's ``convert`` wrote.
        examples: one batch.
        threads: how many threads the engine may use.

    Raises:
        SignwiseError: the engine failed; the message says how.
    """
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder, "input.npz"), Path(folder, "output.npy")
        np.savez(inputs, *listed(examples))
        words = [engine.name, precision, str(model), str(inputs), str(threads), str(outputs)]
        command = [sys.executable, "-m", "signwise.bench.isolated", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SignwiseError(_reason(done.returncode, done.stderr))
        report = json.loads(done.stdout.splitlines()[-1])
        return IsolatedRun(outputs=np.load(outputs), peak_bytes=report["peak_bytes"])


def disable_amx() -> None:
    """Keep oneDNN (in PyTorch and OpenVINO) off the AMX unit, in this process and in those that it starts.

    Some virtual machines announce the unit without enabling it: every AMX instruction is then illegal.
    """
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"


def _reason(code: int, errors: str) -> str:
    if code < 0:
        return f"it crashed here: {signal.strsignal(-code) or f'signal {-code}'}"
    lines = errors.strip().splitlines() or [f"exit code {code}"]
    return lines[-1].removeprefix("signwise.errors.SignwiseError: ")


def _main(words: list[str]) -> None:
    name, precision, model, inputs, threads, outputs = words
    with np.load(inputs) as saved:
        arrays = tuple(saved[name] for name in saved.files)
    examples: Examples = arrays if len(arrays) > 1 else arrays[0]
    chosen: Precision = "int8" if precision == "int8" else "float32"
    run = ENGINES[name].open(Path(model), chosen, batch=len(arrays[0]), threads=int(threads))
    for _ in range(_RUNS):
        computed = run(examples)
    peak = peak_bytes()
    np.save(outputs, computed)
    sys.stdout.write(json.dumps({"peak_bytes": peak}) + "\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
