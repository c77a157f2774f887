"""Measurements in a process of their own: an engine's memory and crashes, and packed files without PyTorch.

    python -m signwise.bench.isolated ENGINE PRECISION MODEL INPUT THREADS OUTPUT

Running an engine in isolation measures the memory that it needs, and catches crashes before it joins the timing
process: some engines crash on processors that announce instructions which they cannot execute.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise import datasets
from signwise.bench.engines import ENGINES, Engine, Precision
from signwise.bench.memory import peak_bytes
from signwise.bench.timing import best_seconds
from signwise.errors import SignwiseError
from signwise.program import load
from signwise.program.program import error_rate

_RUNS = 3  # engines may still allocate in their first runs


@dataclass(frozen=True, kw_only=True, eq=False)
class IsolatedRun:
    """What the process reports.

    Args:
        outputs: the engine's outputs.
        peak_bytes: the peak memory of the whole process.
    """

    outputs: npt.NDArray[np.float32]
    peak_bytes: int


def run_isolated(
    engine: Engine, precision: Precision, model: Path, examples: npt.NDArray[np.float32], threads: int
) -> IsolatedRun:
    """Run a converted file in a fresh process.

    Args:
        engine: one of :data:`signwise.bench.engines.ENGINES`.
        precision: the precision of the file.
        model: the file that the engine's ``convert`` wrote.
        examples: one batch.
        threads: how many threads the engine may use.

    Raises:
        SignwiseError: the engine failed; the message says how.
    """
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder, "input.npy"), Path(folder, "output.npy")
        np.save(inputs, examples)
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


@dataclass(frozen=True, kw_only=True)
class PackedFile:
    """The measurements of one file.

    Args:
        size: bytes on disk.
        error: error on the whole test set, in percent.
        seconds: time of one image on one thread.
    """

    size: int
    error: float
    seconds: float


def measure_without_torch(paths: Sequence[Path], data: Path | None = None) -> list[PackedFile]:
    """Measure packed files in a fresh process where ``import torch`` fails.

    Args:
        paths: the files; each names its data set, as ``signwise compile`` writes it.
        data: folder with the data set, or ``None`` for the cache.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_block_torch) as pool:
        return list(pool.map(measure_packed, paths, [data] * len(paths)))


def measure_packed(path: Path, data: Path | None = None) -> PackedFile:
    """Measure one packed file in this process."""
    session = load(path, threads=1)
    images = datasets.load(session.program.about["dataset"], data)
    one = images.test_images[:1].astype(np.float32)
    return PackedFile(
        size=path.stat().st_size,
        error=100 * error_rate(session, images.test_images, images.test_labels),
        seconds=best_seconds(lambda: session(one)),
    )


def _block_torch() -> None:
    # A module that is None in sys.modules cannot be imported: whoever tries gets an ImportError.
    sys.modules["torch"] = None  # type: ignore[assignment]


def _main(words: list[str]) -> None:
    name, precision, model, inputs, threads, outputs = words
    examples = np.load(inputs)
    chosen: Precision = "int8" if precision == "int8" else "float32"
    run = ENGINES[name].open(Path(model), chosen, batch=len(examples), threads=int(threads))
    for _ in range(_RUNS):
        computed = run(examples)
    peak = peak_bytes()
    np.save(outputs, computed)
    sys.stdout.write(json.dumps({"peak_bytes": peak}) + "\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
