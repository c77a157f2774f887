"""Runs as processes of their own, several at a time, one device each.

Every run is ``python -m signwise train ... --resume``: what was cut goes on, and a crash of one run is not the crash of
the others. What a run prints goes to a log file beside its folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from signwise.reproduce.naming import differences
from signwise.reproduce.plan import PlannedRun
from signwise.training.recipe import Recipe

_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place where one run at a time is carried out.

    Args:
        device: the PyTorch device.
        threads: CPU threads of the run, or ``None`` for PyTorch's choice.
    """

    device: str
    threads: int | None = None


def slots(jobs: int | None, devices: Sequence[str]) -> list[Slot]:
    """The places for runs: one for each accelerator, or as many as asked for, which then share devices or cores.

    Args:
        jobs: runs at once; ``None`` for one a device.
        devices: the accelerators; empty for the CPU, whose cores are shared out.

    Example:
        >>> slots(3, ["cuda:0", "cuda:1"])[2]
        Slot(device='cuda:0', threads=None)
    """
    count = jobs or max(len(devices), 1)
    if devices:
        return [Slot(device=devices[index % len(devices)]) for index in range(count)]
    cores = os.cpu_count() or 1
    return [Slot(device="cpu", threads=max(cores // count, 1) if count > 1 else None) for _ in range(count)]


def recipe_flags(recipe: Recipe) -> list[str]:
    """The words after ``signwise train`` that name a recipe and all in which it differs from the one of that name.

    Example:
        >>> from signwise.training import recipe
        >>> recipe_flags(recipe("lenet5-mnist").changed(t_alpha=0.5))
        ['lenet5-mnist', '--bits', '1', '--t-alpha', '0.5', '--seed', '0']
    """
    flags = {entry.name: entry.metadata.get("flag") for entry in dataclasses.fields(recipe)}
    words = [recipe.name, "--bits", str(recipe.bits)]
    for name, value in (differences(recipe) | {"seed": recipe.seed}).items():
        flag = flags[name] or "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, tuple):
            words += [flag, ",".join(repr(part) for part in value)]
        else:
            words += [flag, str(value)]
    return words


@dataclass(eq=False)
class _Started:
    run: PlannedRun
    slot: Slot
    process: subprocess.Popen[bytes]
    epochs: int


def launch(
    runs: Sequence[PlannedRun],
    places: Sequence[Slot],
    *,
    extra: Sequence[str] = (),
    finished: Callable[[PlannedRun], None],
    say: Callable[[str], None],
) -> list[PlannedRun]:
    """Carry out runs, one a slot, until all have ended.

    Args:
        runs: what to train, in this order.
        places: where.
        extra: further words for ``signwise train``, such as ``--data FOLDER``.
        finished: is called with each run that has come to its end, while others go on.
        say: is told what happens.

    Returns:
        The runs that failed; the log beside the folder of each tells why.
    """
    waiting, free, failed = deque(runs), list(places), list[PlannedRun]()
    with _stopped_with_us() as active:
        while waiting or active:
            while waiting and free:
                active.append(_start(waiting.popleft(), free.pop(0), extra))
                say(_beginning(active[-1]))
            time.sleep(_POLL_SECONDS)
            for started in list(active):
                _tell_epochs(started, say)
                code = started.process.poll()
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
    """A list of processes that do not outlive the block; asked to stop, a run writes a checkpoint before it ends."""

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
            started.process.wait()
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)


def log_path(run: PlannedRun) -> Path:
    """The file that holds what a run prints."""
    return run.folder.with_name(run.folder.name + ".log")


def _start(run: PlannedRun, slot: Slot, extra: Sequence[str]) -> _Started:
    command = [sys.executable, "-m", "signwise", "train", *recipe_flags(run.recipe), "--resume"]
    command += ["--out", str(run.folder), "--device", slot.device, *extra]
    if slot.threads is not None:
        command += ["--threads", str(slot.threads)]
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    with log_path(run).open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    return _Started(run, slot, process, run.epochs_done)


def _beginning(started: _Started) -> str:
    verb = "goes on" if started.run.status == "cut" else "starts"
    return f"{started.run.name}: {verb} on {started.slot.device}, log in {log_path(started.run)}"


def _tell_epochs(started: _Started, say: Callable[[str], None]) -> None:
    metrics = started.run.folder / "metrics.jsonl"
    epochs = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
    if epochs > started.epochs:
        started.epochs = epochs
        say(f"{started.run.name}: {_last_line(log_path(started.run))}")


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
