"""Runs in processes of their own, several at a time, one device each.

A run that was interrupted resumes, and a crash of one run leaves the others alone. What a run prints goes to a log file
beside its folder.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType

from signwise.errors import SignwiseError
from signwise.reproduce.plan import PlannedRun
from signwise.training.recipe import Options, Recipe
from signwise.training.reporters import PlainReporter
from signwise.training.run import train

_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place for one run at a time.

    Args:
        device: the PyTorch device.
        threads: CPU threads of the run, or ``None`` for PyTorch's choice.
    """

    device: str
    threads: int | None = None

    def __str__(self) -> str:
        return f"{self.device}, {self.threads or 'all'} threads"


def slots(jobs: int | None, devices: Sequence[str]) -> list[Slot]:
    """The places for runs: one per accelerator, or as many as requested, which then share devices or cores.

    Args:
        jobs: runs at once; ``None`` for one per device.
        devices: the accelerators; empty for the CPU, whose cores are divided.

    Example:
        >>> slots(3, ["cuda:0", "cuda:1"])[2]
        Slot(device='cuda:0', threads=None)
    """
    count = jobs or max(len(devices), 1)
    if devices:
        return [Slot(device=devices[index % len(devices)]) for index in range(count)]
    cores = os.cpu_count() or 1
    return [Slot(device="cpu", threads=max(cores // count, 1) if count > 1 else None) for _ in range(count)]


@dataclass(eq=False)
class _Started:
    run: PlannedRun
    slot: Slot
    process: SpawnProcess
    epochs: int


def launch(
    runs: Sequence[PlannedRun],
    places: Sequence[Slot],
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    finished: Callable[[PlannedRun], None],
    say: Callable[[str], None],
) -> list[PlannedRun]:
    """Train runs, one per slot, until all have ended.

    Args:
        runs: what to train, in this order.
        places: where.
        options: options of every run; its slot sets device and threads.
        finished: called with each run that has reached its end, while others continue.
        say: called with lines about the progress.

    Returns:
        The runs that failed; the log beside each folder says why.
    """
    waiting, free, failed = deque(runs), list(places), list[PlannedRun]()
    with _stopped_with_us() as active:
        while waiting or active:
            while waiting and free:
                active.append(_start(waiting.popleft(), free.pop(0), options))
                say(_beginning(active[-1]))
            time.sleep(_POLL_SECONDS)
            for started in list(active):
                _say_epochs(started, say)
                code = started.process.exitcode
                if code is None:
                    continue
                active.remove(started)
                free.append(started.slot)
                if code == 0:
                    finished(started.run)
                else:
                    failed.append(started.run)
                    say(f"{started.run.name}: failed: {_last_line(log_path(started.run))}")
    return failed


@contextlib.contextmanager
def _stopped_with_us() -> Iterator[list[_Started]]:
    """A list of processes that do not outlive the block; a run that is asked to stop writes a checkpoint first."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    active: list[_Started] = []
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, interrupt) if in_main_thread else None
    try:
        yield active
    finally:
        for started in active:
            started.process.terminate()
        for started in active:
            started.process.join()
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)


def log_path(run: PlannedRun) -> Path:
    """The file with everything that a run prints."""
    return run.folder.with_name(run.folder.name + ".log")


def _start(run: PlannedRun, slot: Slot, options: Options) -> _Started:
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    here = replace(options, resume=True, device=slot.device, threads=slot.threads)
    # A fresh Python instead of a fork: PyTorch's threads and CUDA do not survive one.
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_train, args=(run.recipe, run.folder, here, log_path(run)))
    process.start()
    return _Started(run, slot, process, run.epochs_done)


def _train(recipe: Recipe, folder: Path, options: Options, log: Path) -> None:
    """Train in the new process; the exit code is 0, 2 after an error with a message, or 128 + the signal."""
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    try:
        outcome = train(recipe, folder, options=options, reporters=[PlainReporter()])
    except SignwiseError as error:
        sys.stdout.write(f"signwise: {error}\n")
        sys.exit(2)
    if outcome.signal is not None:
        sys.exit(128 + outcome.signal)


def _beginning(started: _Started) -> str:
    verb = "resumes" if started.run.status == "interrupted" else "starts"
    return f"{started.run.name}: {verb} on {started.slot.device}, log in {log_path(started.run)}"


def _say_epochs(started: _Started, say: Callable[[str], None]) -> None:
    metrics = started.run.folder / "metrics.jsonl"
    epochs = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
    if epochs > started.epochs:
        started.epochs = epochs
        say(f"{started.run.name}: {_last_line(log_path(started.run))}")


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1] if lines else "it printed nothing"
