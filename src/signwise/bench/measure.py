"""One network, many engines: each first runs in isolation, then all are timed in turn in one process.

Packed files are measured in isolation too, where PyTorch cannot be imported.
"""

from __future__ import annotations

import multiprocessing
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
from signwise.bench.engines.signwise import first_output
from signwise.bench.isolated import IsolatedRun, disable_amx, run_isolated
from signwise.bench.network import Network, listed
from signwise.bench.timing import Timing, alternate, bare_bytes, best_seconds
from signwise.errors import SignwiseError
from signwise.program import load
from signwise.program.measures import error_rate
from signwise.program.program import Examples

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
        say: called with a line about what happens next; with an empty one at the end.
    """
    settings = [Setting(batch=batch, threads=threads) for batch in plan.batches for threads in plan.threads]
    with tempfile.TemporaryDirectory(prefix="signwise-bench-") as name:
        folder = Path(name)
        rows, failures, notes = _run_each(network, plan, folder, say)
        for setting in settings:
            say(f"timing {setting}")
            _time(network, rows, setting, plan.seconds, folder)
    say("")
    float_bytes = network.float32.float32_bytes
    return Comparison(settings=settings, rows=rows, failures=failures, float_bytes=float_bytes, notes=notes)


def _run_each(
    network: Network, plan: Plan, folder: Path, say: Callable[[str], None]
) -> tuple[list[Row], list[Failure], list[str]]:
    rows: list[Row] = []
    failures: list[Failure] = []
    notes: list[str] = []
    examples = network.batch(1)
    expected = first_output(network.float32.reference(*listed(examples)))
    bare = bare_bytes()
    for precision, engine in product(plan.precisions, plan.engines):
        if precision not in engine.precisions or not engine.suits(network):
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


def _run_one(engine: Engine, precision: Precision, path: Path, examples: Examples, notes: list[str]) -> IsolatedRun:
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
    examples = network.batch(setting.batch)
    actions = {}
    for index, row in enumerate(rows):
        path = row.engine.convert(network, row.precision, folder)
        run = row.engine.open(path, row.precision, batch=setting.batch, threads=setting.threads)
        actions[index] = partial(run, examples)
    for index, timing in alternate(actions, seconds=seconds).items():
        rows[index].timings[setting] = timing


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
