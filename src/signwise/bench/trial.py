"""One engine runs one file once, in a process of its own.

    python -m signwise.bench.trial ENGINE PRECISION MODEL INPUT THREADS OUTPUT

It tells the memory that the engine needs, and it tells it before the engine is let into the process that measures time:
an engine that crashes (some do, on processors that announce more than they can) takes nobody with it.
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

from signwise.bench.engine import Engine, Precision
from signwise.bench.memory import peak_bytes
from signwise.errors import SignwiseError

_RUNS = 3  # engines may allocate in their first runs


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """What came of it.

    Args:
        answers: the engine's output.
        peak_bytes: of the whole process.
    """

    answers: npt.NDArray[np.float32]
    peak_bytes: int


def trial(engine: Engine, precision: Precision, model: Path, examples: npt.NDArray[np.float32], threads: int) -> Trial:
    """Run a converted file in a fresh process.

    Args:
        engine: one of :data:`signwise.bench.ENGINES`.
        precision: that of the file.
        model: what the engine's ``convert`` wrote.
        examples: one batch.
        threads: how many the engine may use.

    Raises:
        SignwiseError: the engine failed; the message says how.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "input.npy"), Path(folder, "output.npy")
        np.save(given, examples)
        words = [engine.name, precision, str(model), str(given), str(threads), str(made)]
        command = [sys.executable, "-m", "signwise.bench.trial", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SignwiseError(_reason(done.returncode, done.stderr))
        report = json.loads(done.stdout.splitlines()[-1])
        return Trial(answers=np.load(made), peak_bytes=report["peak_bytes"])


def spare_onednn_the_tiles() -> None:
    """Keep oneDNN, within PyTorch and OpenVINO, from the AMX unit, for this process and those that it starts.

    Some virtual machines announce the unit without letting it be used: every AMX instruction is then illegal.
    """
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"


def _reason(code: int, errors: str) -> str:
    if code < 0:
        return f"it crashed here: {signal.strsignal(-code) or f'signal {-code}'}"
    lines = errors.strip().splitlines() or [f"exit code {code}"]
    return lines[-1].removeprefix("signwise.errors.SignwiseError: ")


def _main(words: list[str]) -> None:
    from signwise.bench import ENGINES

    name, precision, model, given, threads, made = words
    examples = np.load(given)
    engine = ENGINES[name]
    chosen: Precision = "int8" if precision == "int8" else "float32"
    run = engine.open(Path(model), chosen, batch=len(examples), threads=int(threads))
    for _ in range(_RUNS):
        answers = run(examples)
    peak = peak_bytes()
    np.save(made, answers)
    sys.stdout.write(json.dumps({"peak_bytes": peak}) + "\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
