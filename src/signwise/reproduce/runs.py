"""The runs of a target: which are recorded, finished, interrupted or new, how long they will take, and their training.

The time of a run follows from the time of a training step, measured once per machine and remembered in the folder of
runs. A large network needs only a few images for that: the time of a step is nearly proportional to them. A small
network needs its full batch, because the fixed costs of a step (update, transform of the weights) weigh too much.

Runs are trained in processes of their own, several at a time, one device each. A run that was interrupted resumes, and
a crash of one run leaves the others alone. What a run prints goes to a log file beside its folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from signwise import datasets
from signwise.atomic import atomic_write
from signwise.bench.timing import best_seconds
from signwise.errors import SignwiseError
from signwise.provenance import processor
from signwise.reproduce.experiments import images_trained, run_name
from signwise.reproduce.records import Record
from signwise.training.data import Split, TrainingData
from signwise.training.distributed import World, pick_device
from signwise.training.evaluate import network_cost
from signwise.training.recipe import Options, Recipe
from signwise.training.reporters import PlainReporter
from signwise.training.run import train
from signwise.training.step import Stepper, build_model

try:
    import fcntl
except ImportError:  # Windows: a run in another process counts as interrupted there
    fcntl = None  # type: ignore[assignment]

_STEP_TIMES = "step-times.json"
# Multiply-adds of a step, forward and backward, that a core computes in a fraction of a second.
_CPU_MACS = 20_000_000_000
_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run of the plan.

    Args:
        recipe: what to train.
        folder: the run's folder, which may not exist yet.
        status: ``recorded``, ``finished`` (but not recorded), ``running`` (in another process), ``interrupted`` or
            ``new``.
        epochs_done: epochs that need not be trained again.
        seconds_left: estimated time to the end; ``None`` without an estimate.
    """

    recipe: Recipe
    folder: Path
    status: str
    epochs_done: int = 0
    seconds_left: float | None = None

    @property
    def name(self) -> str:
        return run_name(self.recipe)

    @property
    def needs_training(self) -> bool:
        return self.status in ("interrupted", "new")


def plan(
    recipes: Iterable[Recipe],
    records: Iterable[Record],
    runs: Path,
    seconds_per_image: Callable[[Recipe], float] | None = None,
) -> list[PlannedRun]:
    """Look up every run; a record or a folder belongs to a run if it has the same recipe, whatever its name.

    Args:
        recipes: the runs that are wanted.
        records: the existing records.
        runs: the folder of run folders.
        seconds_per_image: the training time per image, or ``None`` to leave the estimate out.

    Returns:
        The runs, in the same order.
    """
    recorded = {record.recipe for record in records}
    found = _run_folders(runs)
    planned = []
    for recipe in recipes:
        folder, config = found.get(recipe, (runs / run_name(recipe), None))
        if recipe in recorded or (config is not None and "finished" in config):
            status = "recorded" if recipe in recorded else "finished"
            planned.append(PlannedRun(recipe=recipe, folder=folder, status=status, epochs_done=recipe.epochs))
            continue
        done = 0 if config is None else _epochs_done(folder)
        images_left = images_trained(recipe) * (1 - done / recipe.epochs)
        left = None if seconds_per_image is None else images_left * seconds_per_image(recipe)
        status = "new" if config is None else "running" if _is_running(folder) else "interrupted"
        planned.append(PlannedRun(recipe=recipe, folder=folder, status=status, epochs_done=done, seconds_left=left))
    return planned


def finished_unrecorded(experiments: Iterable[Recipe], records: Iterable[Record], runs: Path) -> list[PlannedRun]:
    """The finished runs of experiments, with any seed, that have no record.

    Args:
        experiments: the recipes to record; other runs in the folder are ignored.
        records: the existing records.
        runs: the folder of run folders.
    """
    wanted = {dataclasses.replace(recipe, seed=0) for recipe in experiments}
    found = [recipe for recipe in _run_folders(runs) if dataclasses.replace(recipe, seed=0) in wanted]
    return [run for run in plan(found, records, runs) if run.status == "finished"]


def _run_folders(runs: Path) -> dict[Recipe, tuple[Path, dict[str, Any]]]:
    """The run folders by recipe; of several with the same recipe, a finished one."""
    found: dict[Recipe, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(runs.glob("*/config.json")):
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            recipe = Recipe.from_json(config["recipe"])
        except (OSError, ValueError, KeyError):
            # Not a run of signwise, or damaged: training will complain when it is asked to resume there.
            continue
        if recipe not in found or "finished" in config:
            found[recipe] = (path.parent, config)
    return found


def _is_running(folder: Path) -> bool:
    """Whether a process trains there: it holds the folder's lock."""
    if fcntl is None or not (folder / ".lock").exists():
        return False
    with (folder / ".lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _epochs_done(folder: Path) -> int:
    metrics = folder / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def seconds_per_image(
    recipe: Recipe, device: str = "auto", threads: int | None = None, images: int | None = None
) -> float:
    """Measure the training time per image: augmentation, forward, backward and update.

    Args:
        recipe: the network and its settings; the images are noise of the right shape.
        device: where to measure.
        threads: CPU threads, or ``None`` for PyTorch's choice.
        images: images per step; by default the recipe's batch, on a CPU at most a few seconds' work.

    Returns:
        Seconds per image in the fastest of three steps.
    """
    place = pick_device(device)
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        count = images or _measured_images(recipe, place)
        stepper = _stepper(recipe.changed(batch_size=count, train_samples=count, test_samples=1), place)

        def step() -> None:
            stepper.step(0)  # the same one again: a short recipe may have no third
            if place.type != "cpu":
                torch.accelerator.synchronize(place)

        return best_seconds(step, seconds=0, least=3) / count
    finally:
        torch.set_num_threads(before)


def _measured_images(recipe: Recipe, device: torch.device) -> int:
    if device.type != "cpu":
        return recipe.batch_size
    enough = _CPU_MACS // (3 * network_cost(recipe).macs)
    return min(recipe.batch_size, max(enough, 4))


def _stepper(recipe: Recipe, device: torch.device) -> Stepper:
    dataset, random, count = datasets.DATASETS[recipe.dataset], np.random.default_rng(0), recipe.batch_size
    classes = len(dataset.classes)
    pixels = torch.from_numpy(random.standard_normal((count, *dataset.image_shape), dtype=np.float32)).to(device)
    noise = Split(pixels, torch.from_numpy(random.integers(0, classes, count)).to(device))
    model = build_model(recipe, classes).to(device).train()
    data = TrainingData(train=noise, test=noise.first(1))
    return Stepper(recipe, Options(), model, data, World(rank=0, size=1, device=device))


def remembered(
    runs: Path, place: str, measure: Callable[[Recipe], float], say: Callable[[str], None]
) -> Callable[[Recipe], float]:
    """A function that returns the training time per image, measured on the first call and read from a file later.

    Args:
        runs: the folder of runs, which holds the file.
        place: the device and threads that the times belong to.
        measure: measures a recipe's time.
        say: called before a measurement, which may take seconds.
    """
    path = runs / _STEP_TIMES

    def known_or_measured(recipe: Recipe) -> float:
        key = f"{recipe.name}, {recipe.bits} bit, {processor()}, {place}"
        known = _read_times(path)
        if key not in known:
            say(f"measuring a training step of {recipe.name}, {recipe.bits} bit")
            known[key] = measure(recipe)
            runs.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write((json.dumps(known, indent=1) + "\n").encode())
        return known[key]

    return known_or_measured


def _read_times(path: Path) -> dict[str, float]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # Only a cache: if it is missing or damaged, everything is measured again.
        return {}
    return {str(key): float(value) for key, value in known.items()} if isinstance(known, dict) else {}


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
                run, slot = waiting.popleft(), free.pop(0)
                active.append(_start(run, slot, options))
                verb = "resumes" if run.status == "interrupted" else "starts"
                say(f"{run.name}: {verb} on {slot.device}, log in {log_path(run)}")
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
    here = dataclasses.replace(options, resume=True, device=slot.device, threads=slot.threads)
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


def _say_epochs(started: _Started, say: Callable[[str], None]) -> None:
    epochs = _epochs_done(started.run.folder)
    if epochs > started.epochs:
        started.epochs = epochs
        say(f"{started.run.name}: {_last_line(log_path(started.run))}")


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1] if lines else "it printed nothing"
