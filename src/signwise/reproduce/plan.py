"""What is to be done: of the runs that a target needs, which are recorded, finished, cut short or not begun."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signwise.reproduce.naming import run_name
from signwise.reproduce.record import Record
from signwise.reproduce.workload import images_trained
from signwise.training.recipe import Recipe

try:
    import fcntl
except ImportError:  # Windows: there a run in another process is taken for one that was cut
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run of the plan.

    Args:
        recipe: what is trained.
        folder: where the run is, or will be.
        status: ``recorded``, ``finished`` (but not recorded), ``running`` (in another process), ``cut`` (to be
            resumed) or ``new``.
        epochs_done: epochs that need not be trained again.
        seconds_left: estimated time that it still needs; ``None`` where nothing was measured.
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
        return self.status in ("cut", "new")


def plan(
    recipes: Iterable[Recipe],
    records: Iterable[Record],
    runs: Path,
    seconds_per_image: Callable[[Recipe], float] | None = None,
) -> list[PlannedRun]:
    """Look up every run: a record or a folder counts as a run if its recipe is the same, whatever its name.

    Args:
        recipes: the runs that are wanted.
        records: what is recorded.
        runs: the folder of run folders.
        seconds_per_image: measures the time that training spends on an image, or ``None`` to leave the estimate out.

    Returns:
        The runs, in the same order.
    """
    recorded = {record.recipe for record in records}
    found = _run_folders(runs)
    planned = []
    for recipe in recipes:
        folder, config = found.get(recipe, (runs / run_name(recipe), None))
        if recipe in recorded:
            planned.append(PlannedRun(recipe=recipe, folder=folder, status="recorded", epochs_done=recipe.epochs))
            continue
        if config is not None and "finished" in config:
            planned.append(PlannedRun(recipe=recipe, folder=folder, status="finished", epochs_done=recipe.epochs))
            continue
        done = 0 if config is None else _epochs_done(folder)
        left = None
        if seconds_per_image is not None:
            left = images_trained(recipe) * (1 - done / recipe.epochs) * seconds_per_image(recipe)
        status = "new" if config is None else "running" if _is_running(folder) else "cut"
        planned.append(PlannedRun(recipe=recipe, folder=folder, status=status, epochs_done=done, seconds_left=left))
    return planned


def finished_unrecorded(experiments: Iterable[Recipe], records: Iterable[Record], runs: Path) -> list[PlannedRun]:
    """The finished runs that no record tells of, whatever their seed.

    Args:
        experiments: what is worth recording; other runs are somebody's trials.
        records: what is recorded.
        runs: the folder of run folders.
    """
    wanted = {dataclasses.replace(recipe, seed=0) for recipe in experiments}
    found = [recipe for recipe in _run_folders(runs) if dataclasses.replace(recipe, seed=0) in wanted]
    return [run for run in plan(found, records, runs) if run.status == "finished"]


def _run_folders(runs: Path) -> dict[Recipe, tuple[Path, dict[str, Any]]]:
    """The run folders by their recipe; of several with the same one, that which is finished."""
    found: dict[Recipe, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(runs.glob("*/config.json")):
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            recipe = Recipe.from_json(config["recipe"])
        except (OSError, ValueError, KeyError):
            # Not a run of ours, or damaged: signwise train will complain if it is asked to go on there.
            continue
        if recipe not in found or "finished" in config:
            found[recipe] = (path.parent, config)
    return found


def _is_running(folder: Path) -> bool:
    """Whether a process trains there: it holds the folder's lock as long as it lives."""
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
