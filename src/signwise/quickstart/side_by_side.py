"""Two trainings at once, each in a process of its own, in one live display (or plain lines where it is no terminal)."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from signwise.errors import SignwiseError
from signwise.training.monitor import duration, errors_line
from signwise.training.recipe import Recipe


class Display(Protocol):
    """Shows the messages of the trainings."""

    def start(self) -> AbstractContextManager[Any]:
        """A context in which it is shown."""

    def reading(self, recipe: Recipe, reading: dict[str, Any]) -> None:
        """In the middle of an epoch."""

    def epoch(self, recipe: Recipe, row: dict[str, Any]) -> None:
        """An epoch has been evaluated."""


def _epoch_line(recipe: Recipe, row: dict[str, Any]) -> str:
    alpha = "" if row["alpha"] is None else f", α {row['alpha']:.2f}"
    return f"{recipe.bits:2} bit  epoch {row['epoch']}/{recipe.epochs}: {errors_line(row)}{alpha}"


class Lines:
    """One line an epoch."""

    def start(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def reading(self, recipe: Recipe, reading: dict[str, Any]) -> None:
        return None

    def epoch(self, recipe: Recipe, row: dict[str, Any]) -> None:
        sys.stdout.write(_epoch_line(recipe, row) + "\n")
        sys.stdout.flush()


class Bars:
    """A bar for each training, drawn anew in place, and a line for each epoch above."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[reading]}"))
        self._progress = Progress(*columns)
        self._tasks: dict[int, Any] = {}

    def start(self) -> AbstractContextManager[Any]:
        return self._progress

    def reading(self, recipe: Recipe, reading: dict[str, Any]) -> None:
        alpha = "" if reading["alpha"] is None else f"  α {reading['alpha']:.2f}"
        text = (
            f"loss {reading['loss']:.4f}{alpha}  {reading['images_per_second']:,.0f} images/s  "
            f"{duration(reading['seconds_left'])} left"
        )
        self._progress.update(self._task(recipe), total=reading["total_steps"], completed=reading["step"], reading=text)

    def epoch(self, recipe: Recipe, row: dict[str, Any]) -> None:
        self._progress.console.print(_epoch_line(recipe, row), highlight=False, markup=False)
        total = row["step"] * recipe.epochs // row["epoch"]
        self._progress.update(self._task(recipe), total=total, completed=row["step"], reading=errors_line(row))

    def _task(self, recipe: Recipe) -> Any:
        if recipe.bits not in self._tasks:
            self._tasks[recipe.bits] = self._progress.add_task(f"{recipe.bits:2} bit", total=None, reading="")
        return self._tasks[recipe.bits]


def _display() -> Display:
    if sys.stdout.isatty():
        try:
            return Bars()
        except ImportError:  # rich belongs to the extra "train"; its absence costs the bars alone
            pass
    return Lines()


def train_side_by_side(recipes: dict[Path, Recipe], data: Path | None = None) -> None:
    """Train every recipe into its folder, all at once; what is already there is continued, or left if it is complete.

    Args:
        recipes: the recipes by their folders.
        data: folder with the data set, or ``None`` for the cache.

    Raises:
        SignwiseError: one of the trainings failed; the others are stopped.
    """
    threads = max(1, (os.cpu_count() or 1) // len(recipes))
    messages: queue.Queue[tuple[Path, dict[str, Any] | None]] = queue.Queue()
    processes = {out: _start(recipe, out, data, threads) for out, recipe in recipes.items()}
    listeners = [threading.Thread(target=_listen, args=(out, process, messages)) for out, process in processes.items()]
    for listener in listeners:
        listener.start()
    display = _display()
    try:
        with display.start():
            _follow(recipes, processes, messages, display)
    finally:
        for process in processes.values():
            process.terminate()  # each saves a checkpoint and goes
        for process, listener in zip(processes.values(), listeners, strict=True):
            process.wait()
            listener.join()


def _start(recipe: Recipe, out: Path, data: Path | None, threads: int) -> subprocess.Popen[str]:
    settings = {
        "recipe": recipe.to_json(),
        "out": str(out),
        "data": None if data is None else str(data),
        "threads": threads,
    }
    command = [sys.executable, "-m", "signwise.quickstart.trainee", json.dumps(settings)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")


def _listen(
    out: Path, process: subprocess.Popen[str], messages: queue.Queue[tuple[Path, dict[str, Any] | None]]
) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            messages.put((out, json.loads(line)))
    messages.put((out, None))


def _follow(
    recipes: dict[Path, Recipe],
    processes: dict[Path, subprocess.Popen[str]],
    messages: queue.Queue[tuple[Path, dict[str, Any] | None]],
    display: Display,
) -> None:
    running = set(recipes)
    while running:
        out, message = messages.get()
        if message is None:
            running.discard(out)
            code = processes[out].wait()
            if code != 0:
                raise SignwiseError(
                    f"the training in {out} stopped with exit code {code}; start again to go on with it"
                )
        elif "error" in message:
            raise SignwiseError(message["error"])
        elif "reading" in message:
            display.reading(recipes[out], message["reading"])
        else:
            display.epoch(recipes[out], message["epoch"])
