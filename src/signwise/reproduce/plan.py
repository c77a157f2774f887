"""What remains to be done: which runs are recorded, finished, interrupted or new, and how long they will take.

The time of a run follows from the time of a training step, measured once per machine and remembered in the folder of
runs. A large network needs only a few images for that: the time of a step is nearly proportional to them. A small
network needs its full batch, because the fixed costs of a step (update, transform of the weights) weigh too much.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from signwise import datasets
from signwise.atomic import atomic_write
from signwise.bench.timing import best_seconds
from signwise.provenance import processor
from signwise.reproduce.experiments import images_trained, run_name
from signwise.reproduce.records import Record
from signwise.training.data import Split, TrainingData
from signwise.training.distributed import World, pick_device
from signwise.training.evaluate import network_cost
from signwise.training.recipe import Options, Recipe
from signwise.training.step import Stepper, build_model

try:
    import fcntl
except ImportError:  # Windows: a run in another process counts as interrupted there
    fcntl = None  # type: ignore[assignment]

_STEP_TIMES = "step-times.json"
# Multiply-adds of a step, forward and backward, that a core computes in a fraction of a second.
_CPU_MACS = 20_000_000_000


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
        left = None
        if seconds_per_image is not None:
            left = images_trained(recipe) * (1 - done / recipe.epochs) * seconds_per_image(recipe)
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
        numbers = itertools.count()

        def step() -> None:
            stepper.step(next(numbers))
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
    dataset = datasets.DATASETS[recipe.dataset]
    classes = len(dataset.classes)
    random = np.random.default_rng(0)
    count = recipe.batch_size
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
