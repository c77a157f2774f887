"""One network, many engines: each first runs in isolation, then all are timed in turn in one process.

    python -m signwise.bench.measure ENGINE PRECISION MODEL INPUT THREADS OUTPUT

runs one engine in isolation. That measures the memory that it needs, and catches crashes before it joins the timing
process: some engines crash on processors that announce instructions which they cannot execute. Packed files are
measured in isolation too, where PyTorch cannot be imported.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise import datasets
from signwise.bench.engines import PRECISIONS, Engine, Precision
from signwise.bench.engines.mnn import Mnn
from signwise.bench.engines.onnx import OnnxRuntime, OpenVino
from signwise.bench.engines.pytorch import PyTorch
from signwise.bench.engines.signwise import Numpy, Signwise
from signwise.bench.network import Network, random_input, with_float_weights
from signwise.bench.timing import Timing, alternate, bare_bytes, best_seconds, peak_bytes
from signwise.errors import SignwiseError
from signwise.program import load
from signwise.program.evaluate import error_rate

ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (Signwise(), PyTorch(), OnnxRuntime(), OpenVino(), Mnn(), Numpy())
}
"""Every engine by its name, ours first."""

_RUNS = 3  # engines may still allocate in their first runs
_ILLEGAL_INSTRUCTION = "Illegal instruction"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A batch size and a number of threads: one column of the table."""

    batch: int
    threads: int

    def __str__(self) -> str:
        return f"batch {self.batch}, {self.threads} thread{'s' if self.threads > 1 else ''}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One engine at one precision.

    Args:
        engine, precision: which.
        file_bytes: the size of the file that it runs.
        memory_bytes: peak memory of a process that runs it, above a bare Python with numpy.
        difference: the largest difference from the float32 outputs, relative to the largest output.
        timings: the times, by setting.
    """

    engine: Engine
    precision: Precision
    file_bytes: int
    memory_bytes: int
    difference: float
    timings: dict[Setting, Timing] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An engine that could not run the network, and why."""

    engine: Engine
    precision: Precision
    reason: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Every measurement of one network.

    Args:
        settings: the columns, in order.
        rows: the engines that ran it, float32 first.
        failures: the engines that could not.
        float_bytes: the size of its weights in float32, for comparison with the file sizes.
        notes: what a reader of the numbers must know.
    """

    settings: list[Setting]
    rows: list[Row]
    failures: list[Failure]
    float_bytes: int
    notes: list[str]

    def fastest_peer(self, precision: Precision, setting: Setting) -> Row | None:
        """The fastest peer at one precision, if there is one."""
        others = [row for row in self.rows if row.precision == precision and not row.engine.ours]
        return min(others, key=lambda row: row.timings[setting].best, default=None)

    def ours(self, precision: Precision) -> Row | None:
        """The row of the packed file at one precision, if there is one."""
        return next((row for row in self.rows if row.precision == precision and row.engine.name == "signwise"), None)

    def speedup(self, precision: Precision, setting: Setting) -> float | None:
        """How many times as fast as the fastest peer the packed file is."""
        mine, peer = self.ours(precision), self.fastest_peer(precision, setting)
        return None if mine is None or peer is None else peer.timings[setting].best / mine.timings[setting].best


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure.

    Args:
        engines: the engines, all of them installed.
        precisions: the precisions; an engine is skipped where it does not have one.
        batches: batch sizes.
        threads: numbers of threads.
        seconds: about how long each setting may take.
    """

    engines: Sequence[Engine]
    precisions: Sequence[Precision] = PRECISIONS
    batches: Sequence[int] = (1, 16)
    threads: Sequence[int] = (1,)
    seconds: float = 4.0

    def __post_init__(self) -> None:
        for name, values in (("batches", self.batches), ("threads", self.threads)):
            if not values or any(value < 1 for value in values):
                raise SignwiseError(f"{name} must be positive numbers, got {tuple(values)}")
        if not self.seconds > 0:
            raise SignwiseError(f"seconds must be positive, got {self.seconds}")


def compare(network: Network, plan: Plan, say: Callable[[str], None] = lambda _: None) -> Comparison:
    """Measure a network with every engine of a plan.

    Args:
        network: what to run.
        plan: the engines and settings.
        say: called with a line about what happens next.
    """
    settings = [Setting(batch=batch, threads=threads) for batch in plan.batches for threads in plan.threads]
    with tempfile.TemporaryDirectory(prefix="signwise-bench-") as name:
        folder = Path(name)
        rows, failures, notes = _run_each(network, plan, folder, say)
        for setting in settings:
            say(f"timing {setting}")
            _time(network, rows, setting, plan.seconds, folder)
    float_bytes = with_float_weights(network.float32).nbytes
    return Comparison(settings=settings, rows=rows, failures=failures, float_bytes=float_bytes, notes=notes)


def _run_each(
    network: Network, plan: Plan, folder: Path, say: Callable[[str], None]
) -> tuple[list[Row], list[Failure], list[str]]:
    rows: list[Row] = []
    failures: list[Failure] = []
    notes: list[str] = []
    examples = random_input(network.float32, 1)
    expected = network.float32.reference(examples)
    bare = bare_bytes()
    for precision, engine in product(plan.precisions, plan.engines):
        if precision not in engine.precisions:
            continue
        say(f"trying {engine.title} {precision}")
        try:
            path = engine.convert(network, precision, folder)
            done = _run_one(engine, precision, path, examples, notes)
        except SignwiseError as error:
            failures.append(Failure(engine=engine, precision=precision, reason=str(error)))
            continue
        row = Row(
            engine=engine,
            precision=precision,
            file_bytes=path.stat().st_size,
            memory_bytes=max(0, done.peak_bytes - bare),
            difference=_difference(done.outputs, expected),
        )
        rows.append(row)
    return rows, failures, notes


def _run_one(
    engine: Engine, precision: Precision, path: Path, examples: npt.NDArray[np.float32], notes: list[str]
) -> IsolatedRun:
    try:
        return run_isolated(engine, precision, path, examples, threads=1)
    except SignwiseError as error:
        if _ILLEGAL_INSTRUCTION not in str(error):
            raise
    disable_amx()
    done = run_isolated(engine, precision, path, examples, threads=1)
    notes.append(f"{engine.title} runs without AMX, which this machine announces but cannot execute")
    return done


def _difference(outputs: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> float:
    largest = float(np.abs(expected).max())
    return float(np.abs(outputs - expected).max()) / (largest or 1.0)


def _time(network: Network, rows: Sequence[Row], setting: Setting, seconds: float, folder: Path) -> None:
    examples = random_input(network.float32, setting.batch)
    actions = {}
    for index, row in enumerate(rows):
        path = row.engine.convert(network, row.precision, folder)
        run = row.engine.open(path, row.precision, batch=setting.batch, threads=setting.threads)
        actions[index] = partial(run, examples)
    for index, timing in alternate(actions, seconds=seconds).items():
        rows[index].timings[setting] = timing


@dataclass(frozen=True, kw_only=True, eq=False)
class IsolatedRun:
    """What an isolated process reports.

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
        engine: one of :data:`ENGINES`.
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
        command = [sys.executable, "-m", "signwise.bench.measure", *words]
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
    """The measurements of one packed file.

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
