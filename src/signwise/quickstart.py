"""A first look: train LeNet5 with 32 bits and with 1 bit side by side, pack both, run the files, and compare.

This is a tour of the library on the embedded MNIST, with a short recipe of its own. The paper trains LeNet5 for 200
epochs with a learning rate of 0.01, too slow for a few epochs. So the rate is higher, the warm-up a fraction of an
epoch, and α reaches 1 half-way, which leaves the second half to the deployed weights. Network, optimizer, batch size
and decay are the paper's.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from signwise import datasets
from signwise.bench.timing import best_seconds
from signwise.compiler import compile as compile_model
from signwise.errors import SignwiseError
from signwise.figures import save
from signwise.figures.bars import bars_figure, number_panel
from signwise.text import aligned, duration
from signwise.training.loop import EpochRecord, Event, Reading, Reporter
from signwise.training.recipe import Options, Recipe
from signwise.training.recipes import get_recipe
from signwise.training.reporters import errors_line
from signwise.training.run import train
from signwise.training.run_folder import load_run

BITS = (32, 1)
_SHARED: dict[str, Any] = {"name": "quickstart", "epochs": 4, "warmup_epochs": 0.3}
_OWN: dict[int, dict[str, Any]] = {1: {"learning_rate": 0.1, "t_alpha": 0.5}, 32: {"learning_rate": 0.05}}


def short_recipe(bits: int, **changes: Any) -> Recipe:
    """The recipe of one of the two networks.

    Args:
        bits: 1 or 32.
        changes: settings to change, for an even quicker look.

    Example:
        >>> short_recipe(1).epochs, short_recipe(1).t_alpha, short_recipe(32).bits
        (4, 0.5, 32)
    """
    settings = _SHARED | _OWN[bits] | changes
    if "epochs" in changes and "warmup_epochs" not in changes:
        settings["warmup_epochs"] = min(_SHARED["warmup_epochs"], changes["epochs"])
    # All test images, also for few training images: the table at the end tests the files on all.
    return get_recipe("lenet5-mnist", bits).changed(**{"test_samples": None} | settings)


def train_side_by_side(recipes: Mapping[Path, Recipe], data: Path | None = None) -> None:
    """Train every recipe into its folder, each in a process of its own; resumes what was interrupted.

    Args:
        recipes: the recipes by their folders.
        data: folder with the data set, or ``None`` for the cache.

    Raises:
        SignwiseError: a training failed; the others stop with a checkpoint.
    """
    options = Options(data=data, resume=True, threads=max(1, (os.cpu_count() or 1) // len(recipes)), tensorboard=False)
    # A fresh Python instead of a fork, which PyTorch's threads do not survive.
    context = multiprocessing.get_context("spawn")
    trainings: dict[Connection, tuple[Path, Any]] = {}
    show, display = _display(recipes.values())
    try:
        for folder, recipe in recipes.items():
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_train_in_child, args=(recipe, folder, options, sender))
            process.start()
            sender.close()  # the child's copy is then the last one: its end closes the pipe
            trainings[receiver] = folder, process
        with display:
            _follow(recipes, dict(trainings), show)
    finally:
        for _, process in trainings.values():
            process.terminate()  # a training that is still running saves a checkpoint first
        for _, process in trainings.values():
            process.join()


def _follow(
    recipes: Mapping[Path, Recipe],
    trainings: dict[Connection, tuple[Path, Any]],
    show: Callable[[Recipe, Event], None],
) -> None:
    while trainings:
        for receiver in wait(list(trainings)):
            assert isinstance(receiver, Connection)
            folder, process = trainings[receiver]
            try:
                message = receiver.recv()
            except EOFError:
                del trainings[receiver]
                process.join()
                if process.exitcode != 0:
                    raise SignwiseError(
                        f"the training in {folder} stopped with exit code {process.exitcode}; start again to resume it"
                    ) from None
                continue
            if isinstance(message, str):
                raise SignwiseError(message)
            show(recipes[folder], message)


class _Sender(Reporter):
    """Sends events to the parent process."""

    reading_seconds = 0.5

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def report(self, event: Event) -> None:
        self._connection.send(event)


def _train_in_child(recipe: Recipe, folder: Path, options: Options, connection: Connection) -> None:
    try:
        outcome = train(recipe, folder, options=options, reporters=[_Sender(connection)])
    except SignwiseError as error:
        connection.send(str(error))
        sys.exit(2)
    except BrokenPipeError:
        # The parent is gone; the last checkpoint stays.
        sys.exit(1)
    if outcome.signal is not None:
        sys.exit(128 + outcome.signal)


def _display(recipes: Iterable[Recipe]) -> tuple[Callable[[Recipe, Event], None], AbstractContextManager[Any]]:
    """A function that shows the events of a recipe, and the context in which it may be called."""
    if sys.stdout.isatty():
        try:
            bars = Bars(recipes)
        except ImportError:  # rich belongs to the extra "train"; without it there are no bars
            pass
        else:
            return bars.show, bars.progress
    return _show_line, nullcontext()


def _epoch_line(recipe: Recipe, record: EpochRecord) -> str:
    alpha = "" if record.alpha is None else f", α {record.alpha:.2f}"
    return f"{recipe.bits:2} bit  epoch {record.epoch}/{recipe.epochs}: {errors_line(record)}{alpha}"


def _show_line(recipe: Recipe, event: Event) -> None:
    if isinstance(event, EpochRecord):
        sys.stdout.write(_epoch_line(recipe, event) + "\n")
        sys.stdout.flush()


class Bars:
    """One progress bar per training, updated in place, and a line per epoch above them."""

    def __init__(self, recipes: Iterable[Recipe]) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[reading]}"))
        self.progress = Progress(*columns, transient=True)
        # From the start: the first step comes some seconds later.
        self._tasks = {
            recipe.bits: self.progress.add_task(f"{recipe.bits:2} bit", total=None, reading="starting")
            for recipe in recipes
        }

    def show(self, recipe: Recipe, event: Event) -> None:
        if isinstance(event, Reading):
            alpha = "" if event.alpha is None else f"  α {event.alpha:.2f}"
            speed = f"{event.images_per_second:,.0f} images/s  {duration(event.seconds_left)} left"
            self._update(recipe, event.total_steps, event.step, f"loss {event.loss:.4f}{alpha}  {speed}")
        elif isinstance(event, EpochRecord):
            self.progress.console.print(_epoch_line(recipe, event), highlight=False, markup=False)
            self._update(recipe, event.step * recipe.epochs // event.epoch, event.step, errors_line(event))

    def _update(self, recipe: Recipe, total: int, completed: int, reading: str) -> None:
        self.progress.update(self._tasks[recipe.bits], total=total, completed=completed, reading=reading)


def pack_run(folder: Path) -> tuple[Path, nn.Module]:
    """Compile a run's last weights to ``FOLDER.sw``; returns the file and the model, which takes raw pixels."""
    run = load_run(folder, "last")
    model = run.on_raw_pixels().eval()
    about = {
        "network": f"{run.recipe.model}, {run.recipe.bits} bit",
        "dataset": run.recipe.dataset,
        "input": "raw pixels, 0 to 255",
        "trained": f"{run.recipe.epochs} epochs, the quickstart's own recipe",
    }
    path = folder.with_suffix(".sw")
    compile_model(model, torch.zeros(1, *run.config["network"]["input_shape"]), about=about).save(path)
    return path, model


def pytorch_seconds(model: nn.Module, dataset: str, data: Path | None = None) -> float:
    """The time of one image in PyTorch, on one thread."""
    image = torch.from_numpy(datasets.load(dataset, data).test_images[:1].astype(np.float32))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            return best_seconds(lambda: model(image))
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table at the end.

    Args:
        name: the network, its training, and what runs it.
        bits: bits per weight.
        error: error on the test images, in percent.
        size: bytes on disk.
        seconds: time of one image on one thread.
    """

    name: str
    bits: int
    error: float
    size: int
    seconds: float


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    cells = [("network", "error", "bytes on disk", "µs per image")]
    cells += [(row.name, f"{row.error:.2f} %", f"{row.size:,}", f"{1e6 * row.seconds:,.0f}") for row in rows]
    return aligned(cells)


def draw(rows: list[Row], path: Path) -> None:
    """Draw the rows as bars, one panel per column of the table."""

    binary = [row.bits == 1 for row in rows]
    sizes, times = [row.size / 1e3 for row in rows], [1e6 * row.seconds for row in rows]
    panels = [
        number_panel("KB on disk", sizes, binary=binary, decimals=0, labels=[row.name for row in rows]),
        number_panel("µs per image, one thread", times, binary=binary, decimals=0),
        number_panel("error, %", [row.error for row in rows], binary=binary, decimals=2),
    ]
    save(bars_figure(panels), path)
