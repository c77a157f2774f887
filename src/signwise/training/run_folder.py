"""The folder of a run: everything that is on disk, written by one process at a time.

config.json                     recipe, options, versions, hardware, revision, dates
metrics.jsonl                   one JSON object per epoch
state.jsonl                     one JSON object per epoch and watched layer: histograms of φ, w_α and sign(φ)
checkpoint.safetensors          what a resumed run needs, and checkpoint.previous.safetensors
best.safetensors                the weights of the epoch with the lowest error
last.safetensors                the weights after the last step
events.out.tfevents.*           for TensorBoard
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn

from signwise.atomic import atomic_write, remove_unfinished
from signwise.errors import SignwiseError
from signwise.layers import relaxed
from signwise.models import Standardize
from signwise.training import checkpoint
from signwise.training.data import load_images, standardized_data
from signwise.training.distributed import World
from signwise.training.evaluate import score
from signwise.training.recipe import Recipe
from signwise.training.records import complete_lines
from signwise.training.records import read_config as read_config  # offered here, too: whoever has a folder reads it
from signwise.training.records import read_records as read_records
from signwise.training.records import recorded_data as recorded_data
from signwise.training.step import binarization_schedule, build_model

METRICS = "metrics.jsonl"  # one line per epoch
# The files that a run replaces; a process that is killed meanwhile leaves an unfinished one behind.
_REPLACED = ("config.json", METRICS, "state.jsonl", checkpoint.CURRENT, "best.safetensors", "last.safetensors")

try:
    import fcntl
except ImportError:  # Windows has no flock; there a second process in the same folder goes unnoticed
    fcntl = None  # type: ignore[assignment]


def _epoch_of(line: bytes) -> int | None:
    """The epoch that a line of a ``.jsonl`` file is about; ``None`` for a damaged line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    epoch = record.get("epoch") if isinstance(record, dict) else None
    return epoch if type(epoch) is int else None


class RunFolder:
    """A run's folder, locked by this process until :meth:`close`.

    Args:
        path: the folder; created if it does not exist.
        resume: accept a folder that already holds a run.

    Raises:
        SignwiseError: another process trains here, the folder holds a run and ``resume`` is off, or the folder cannot
            be written.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self._made = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock: IO[bytes] = (path / ".lock").open("ab")  # open until close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise SignwiseError(f"cannot write to {path}: {reason}; choose another `out`") from error
        try:
            self._claim(resume)
        except BaseException:
            self._lock.close()
            raise

    def _claim(self, resume: bool) -> None:
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SignwiseError(
                    f"another process is training in {self.path}: wait for it, or choose another `out`"
                ) from None
        names = ("config.json", checkpoint.CURRENT, checkpoint.PREVIOUS)
        if not resume and any((self.path / name).exists() for name in names):
            raise SignwiseError(f"{self.path} already holds a run: continue it with `resume`, or choose another `out`")
        for name in _REPLACED:
            remove_unfinished(self.path / name)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write ``config.json``, whole or not at all."""
        try:
            with atomic_write(self.path / "config.json") as file:
                file.write((json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode())
        except OSError as error:
            raise SignwiseError(f"cannot write {self.path / 'config.json'}: {error.strerror or error}") from error

    def append(self, name: str, records: list[dict[str, Any]]) -> None:
        """Add lines to a ``.jsonl`` file; they are on disk when this returns."""
        text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records)
        try:
            with (self.path / name).open("ab") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            reason = error.strerror or str(error)
            raise SignwiseError(f"cannot write {self.path / name}: {reason}; the checkpoint is intact") from error

    def keep_epochs(self, name: str, epochs: int) -> list[str]:
        """Drop the lines of a ``.jsonl`` file about epochs after ``epochs``: the resumed run writes them again.

        Returns:
            A sentence about damaged lines, which are dropped too, and one about epochs that the metrics lack.
        """
        path = self.path / name
        lines: list[tuple[int | None, bytes]] = []
        try:
            if path.exists():
                lines = [(_epoch_of(line), line) for line in complete_lines(path)]
                with atomic_write(path) as file:
                    file.writelines(line + b"\n" for epoch, line in lines if epoch is not None and epoch <= epochs)
        except OSError as error:
            reason = error.strerror or str(error)
            raise SignwiseError(f"cannot write {path}: {reason}; the checkpoint is intact") from error
        damaged = [str(number) for number, (epoch, _) in enumerate(lines, start=1) if epoch is None]
        notes = [f"{path} was damaged; dropped line {', '.join(damaged)}"] if damaged else []
        if name == METRICS and (lost := sorted({*range(1, epochs + 1)} - {epoch for epoch, _ in lines})):
            notes.append(f"{path} lacks epoch {', '.join(map(str, lost))}, which the checkpoint counts")
        return notes

    def close(self) -> None:
        """Release the folder for the next process; a run that was refused leaves no new folder behind."""
        if self._made and [entry.name for entry in self.path.iterdir()] == [".lock"]:
            (self.path / ".lock").unlink()
            with contextlib.suppress(OSError):  # somebody else uses a folder above it by now
                for folder in self._made:
                    folder.rmdir()
        self._lock.close()


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A run read back from its folder.

    Args:
        recipe: what was trained.
        model: the model in evaluation mode, on the CPU, with the α and ζ of its step.
        config: the run's ``config.json``.
        step: the step after which the weights were saved.
    """

    recipe: Recipe
    model: nn.Module
    config: dict[str, Any]
    step: int

    def on_raw_pixels(self) -> nn.Module:
        """The model to deploy: the standardization of the training images becomes its first operation."""
        described = self.config["network"]
        standardize = Standardize(described["mean"], described["std"])
        return nn.Sequential(OrderedDict(standardize=standardize, network=self.model))


def load_run(folder: Path | str, which: str = "best") -> Run:
    """Read the model of a run.

    Args:
        folder: the run's folder.
        which: ``best`` for the epoch with the lowest error, ``last`` for the newest weights. Of a run that is still
            training, ``last`` reads the checkpoint.

    Raises:
        SignwiseError: the folder holds no run, or the run has no weights yet.
    """
    if which not in ("best", "last"):
        raise SignwiseError(f"which must be best or last, got {which!r}")
    folder = Path(folder)
    config = read_config(folder)
    recipe = Recipe.from_json(config["recipe"])
    described = config["network"]
    # Old records have no shape, and no model of the user's own.
    shape = tuple(described["input_shape"]) if "input_shape" in described else None
    model = build_model(recipe, len(described["classes"]), image_shape=shape)
    path = folder / f"{which}.safetensors"
    found = checkpoint.read_tensors(path) if path.exists() else checkpoint.read(folder)[0]
    if found is None:
        raise SignwiseError(f"the run in {folder} has no weights yet: wait for its first checkpoint")
    checkpoint.load_model_(model, found.tensors)
    step: int = found.record.get("progress", found.record)["step"]
    schedule = binarization_schedule(recipe, config["steps_per_epoch"])
    if schedule is not None:
        schedule.apply_(model, max(step - 1, 0))
    return Run(recipe=recipe, model=model.eval(), config=config, step=step)


def evaluate_run(
    folder: Path, which: str, *, device: torch.device, data: Path | None = None, samples: int | None = None
) -> dict[str, Any]:
    """The error of a run's model on the test images, with deployed and with relaxed weights.

    Args:
        folder: the run's folder.
        which: ``best`` or ``last``.
        device: where to compute.
        data: folder with the data set; ``None`` for the one that the run was trained on.
        samples: number of test images; ``None`` for as many as the recipe tests on.

    Returns:
        What was tested, on how many images, and the errors in percent.
    """
    run = load_run(folder, which)
    recipe, model = run.recipe, run.model.to(device)
    world = World(rank=0, size=1, device=device)
    images = load_images(recipe, data or recorded_data(run.config))
    test = standardized_data(images, device, train_samples=1, test_samples=recipe.test_samples).test.first(samples)
    deployed = score(model, test, world)
    relaxed_error = None
    if recipe.bits == 1:
        with relaxed(model):
            relaxed_error = score(model, test, world).error
    return {
        "what": f"{folder} ({recipe.name}, {recipe.bits} bit, {which} weights, step {run.step})",
        "dataset": recipe.dataset,
        "images": len(test.images),
        "error": deployed.error,
        "loss": deployed.loss,
        "relaxed_error": relaxed_error,
    }
