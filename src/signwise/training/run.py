"""The way in: :func:`train` takes a recipe and returns a trained model, with its records in a folder."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from signwise import provenance
from signwise.datasets import ImageData
from signwise.errors import SignwiseError
from signwise.layers import binary_layers
from signwise.models import fit_to_images_
from signwise.training import checkpoint
from signwise.training.checkpoint import Progress, broadcast_checkpoint, restore_
from signwise.training.data import load_images, standardized_data
from signwise.training.distributed import World, join_world
from signwise.training.evaluate import multiply_adds
from signwise.training.loggers import logger_reporters
from signwise.training.loop import Loop, Reporter
from signwise.training.pretrained import (
    Pretrained,
    build_teacher,
    distillation_loss,
    load_pretrained_,
    read_pretrained,
)
from signwise.training.recipe import ARITHMETIC, Options, Recipe
from signwise.training.reporters import LayerStateReporter, MetricsReporter, TensorBoardReporter, watched_layers
from signwise.training.run_folder import RunFolder, read_config
from signwise.training.step import AddedLoss, Stepper, build_model, check_outputs, model_factory, steps_per_epoch

_TINY_STEP = 500_000_000
"""Multiply-adds per step and process below which one thread is as fast as many, and faster on a busy machine."""

# What config.json records about each attempt at a run, the first one and every resumed one.
ATTEMPT = ("started", "options", "processes", "job", "threads", "versions", "hardware", "revision")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """How a run ended.

    Args:
        model: the model as the last step left it, in evaluation mode.
        folder: the run's folder, or ``None`` if nothing was written.
        progress: how far the run came, and its errors.
        signal: the signal that stopped the run early, or ``None``.
        is_main: whether this is rank 0.
        processes: the number of processes that trained together.
    """

    model: nn.Module
    folder: Path | None
    progress: Progress
    signal: int | None
    is_main: bool
    processes: int = 1


def train(
    recipe: Recipe,
    out: Path | str | None = None,
    *,
    options: Options = Options(),  # noqa: B008 - frozen, so one instance serves every call
    reporters: Sequence[Reporter] = (),
) -> Outcome:
    """Train a recipe's model, or resume a run that was interrupted.

    Ctrl-C and SIGTERM stop the run after the current step, with a checkpoint; a second Ctrl-C stops it at once. Under
    ``torchrun`` every process calls this with the same arguments. A resumed run computes as it did before: see
    :class:`~signwise.training.recipe.Options` for the settings that it keeps.

    Args:
        recipe: what to learn; :func:`~signwise.training.get_recipe` has the paper's.
        out: the run's folder; created if it does not exist. ``None`` writes nothing.
        options: how to carry it out.
        reporters: receive the run's events on rank 0, e.g. a ``PlainReporter`` from ``signwise.training.reporters``.

    Returns:
        How the run ended, with the model.

    Raises:
        SignwiseError: the folder holds another run, the data is missing, the disk is full, or the loss diverged.

    Example:
        >>> from signwise.training import get_recipe
        >>> recipe = get_recipe("lenet5-mnist").changed(epochs=1, train_samples=200)
        >>> outcome = train(recipe, options=Options(device="cpu"))
        >>> outcome.progress.step, outcome.signal
        (2, None)
    """
    if options.resume and out is None:
        raise SignwiseError("`resume` needs `out`: without a folder there is nothing to resume from")
    path = None if out is None else Path(out)
    with join_world(options.device) as world, _stop_on_signal(world) as stop:
        # DDP lives in a separate function, so that it is gone before the process group is. If it held the last
        # reference to the group, it would wait, holding Python's lock, for threads of the group that may need that
        # lock, https://github.com/pytorch/pytorch/issues/56297.
        return _train_in(world, recipe, path, options, reporters, stop)


def _train_in(
    world: World, recipe: Recipe, out: Path | None, options: Options, reporters: Sequence[Reporter], stop: _Stop
) -> Outcome:
    # Rank 0's recipe on every process: a resumed recipe comes from a folder that other machines may not see.
    recipe = Recipe.from_json(json.loads(world.broadcast_text(json.dumps(recipe.to_json()))))
    resume = options.resume or (out is not None and world.restarts > 0 and _was_begun_by(world.job, out))
    model_factory(recipe)  # a misspelled model is said before anything about the folder
    folder = RunFolder(out, resume=resume) if out is not None and world.is_main else None
    audience = list(reporters) if world.is_main else []
    try:
        options, notes = _with_arithmetic(options, world, folder)
        data = _load(recipe, options, world)
        prepared = standardized_data(
            data,
            world.device,
            train_samples=recipe.train_samples,
            test_samples=recipe.test_samples,
            validation_samples=recipe.validation_samples,
        )
        total_steps = recipe.epochs * steps_per_epoch(recipe, len(prepared.train.images))
        model = build_model(recipe, len(data.classes), total_steps, data.image_shape).to(world.device)
        check_outputs(model, recipe, data.image_shape, len(data.classes))
        work = multiply_adds(model, prepared.train.images[:1])
        if (
            options.threads is None
            and world.device.type == "cpu"
            and work * recipe.batch_size < _TINY_STEP * world.size
        ):
            torch.set_num_threads(1)
        if recipe.batch_size > len(prepared.train.images):
            there = f"{len(prepared.train.images):,} training images"
            notes.append(f"batch_size is {recipe.batch_size:,}, and there are {there}: every step takes all of them")
        fit_to_images_(model, prepared.train.images)
        if options.sync_batch_norm:
            if world.device.type == "cpu":
                raise SignwiseError("`sync_batch_norm` needs an accelerator: PyTorch has none for the CPU")
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        pretrained = _pretrained(recipe, folder, world)
        if pretrained is not None:
            load_pretrained_(model, pretrained)  # a resumed run loads its checkpoint over it
        added_loss = None
        if recipe.distill and pretrained is not None:
            added_loss = _distillation(recipe, build_teacher(recipe, len(data.classes), pretrained).to(world.device))
        stepper = Stepper(recipe, options, model, prepared, world, added_loss)
        layers = watched_layers(model, options.watch)
        if folder is not None:
            loggers = logger_reporters(options.log_to, folder.path)
            if options.tensorboard:
                loggers.append(TensorBoardReporter(folder.path, layers))
            # Records first: whoever sees an epoch in the terminal finds it on disk.
            audience = [MetricsReporter(folder), LayerStateReporter(folder, layers), *loggers, *audience]
        progress, more_notes = _start_or_resume(stepper, options, folder, data, pretrained)
        loop = Loop(
            stepper,
            progress,
            folder,
            reporters=audience,
            checkpoint_minutes=options.checkpoint_minutes,
            relaxed_every=options.relaxed_every,
            should_stop=lambda: stop.signal is not None,
        )
        loop.run(notes=(*notes, *more_notes))
        is_finished = progress.step == stepper.total_steps
        if folder is not None and is_finished:
            _record_end(folder, progress)
    finally:
        for reporter in audience:
            reporter.close()
        if folder is not None:
            folder.close()
    # A run that stopped early was asked to, if not by a signal to this process then by one to another.
    number = None if is_finished else stop.signal or signal.SIGTERM
    return Outcome(
        model=model.eval(),
        folder=out,
        progress=progress,
        signal=number,
        is_main=world.is_main,
        processes=world.size,
    )


class _Stop:
    """The signal that asked the run to stop, or ``None``."""

    def __init__(self, is_main: bool) -> None:
        self.signal: int | None = None
        self._is_main = is_main

    def ask(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
        if number == signal.SIGINT and self._is_main:
            # A step of a large network takes long. Written directly: a signal may arrive within another write.
            with contextlib.suppress(OSError):
                os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")


@contextlib.contextmanager
def _stop_on_signal(world: World) -> Iterator[_Stop]:
    """Inside the block, SIGINT and SIGTERM set a flag instead of ending the process."""
    stop = _Stop(world.is_main)
    if threading.current_thread() is not threading.main_thread():
        # Python delivers signals to the main thread only; elsewhere the caller decides when to stop.
        yield stop
        return
    before = {number: signal.signal(number, stop.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _was_begun_by(job: str | None, folder: Path) -> bool:
    """Whether this job began the run in a folder before a restart, as opposed to a run that was there already."""
    if not (folder / "config.json").exists():
        return True
    config = read_config(folder)
    return any(attempt.get("job") == job for attempt in (config, *config.get("resumed", [])))


def _with_arithmetic(options: Options, world: World, folder: RunFolder | None) -> tuple[Options, list[str]]:
    """Make PyTorch round as the run did before.

    Returns:
        The options with the settings that are in effect, and one sentence per difference from the attempt before.
    """
    notes: list[str] = []
    if folder is not None and (folder.path / "config.json").exists():
        config = read_config(folder.path)
        before = {"options": {}} | (config.get("resumed") or [config])[-1]
        options, notes = options.as_begun(before)
        then, now = before.get("processes", world.size), world.size
        if then != now:
            notes.append(f"the run had {then} processes and has {now} now: it rounds differently from here on")
        if (options.threads or 0) > (os.cpu_count() or 1):
            notes.append(f"{options.threads} threads as before, on {os.cpu_count()} cores: set threads for more speed")
    # From rank 0, which alone sees the folder, to every process.
    settings = json.loads(world.broadcast_text(json.dumps({name: getattr(options, name) for name in ARITHMETIC})))
    options = dataclasses.replace(options, **settings)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    if options.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it CUDA refuses matrix products
        torch.use_deterministic_algorithms(True)
    return options, notes


def _load(recipe: Recipe, options: Options, world: World) -> ImageData:
    if options.data is not None and not options.data.exists():
        raise SignwiseError(f"there is no folder {options.data} for the data set: correct `data`, or make the folder")
    # Rank 0 first: it may have to download, and the others then find the files.
    if world.is_main:
        data = load_images(recipe, options.data)
    world.barrier()
    return data if world.is_main else load_images(recipe, options.data)


def _pretrained(recipe: Recipe, folder: RunFolder | None, world: World) -> Pretrained | None:
    """The weights to start from; ``None`` without any, or for a resumed run that does not need them any more."""
    if recipe.init_from is None:
        return None
    recorded, is_resumed = None, False
    if folder is not None and (folder.path / "config.json").exists():
        recorded = read_config(folder.path).get("pretrained", {}).get("sha256")
        is_resumed = any((folder.path / name).exists() for name in (checkpoint.CURRENT, checkpoint.PREVIOUS))
    # Rank 0 decides: other machines may not see the folder.
    recorded, is_resumed = json.loads(world.broadcast_text(json.dumps([recorded, is_resumed])))
    if is_resumed and not recipe.distill:
        return None
    pretrained = read_pretrained(recipe.init_from)
    if recorded not in (None, pretrained.sha256):
        raise SignwiseError(
            f"{pretrained.path} has changed since the run was begun with it: restore the file, or choose another `out`"
        )
    return pretrained


def _distillation(recipe: Recipe, teacher: nn.Module) -> AddedLoss:
    def loss(hard: Tensor, images: Tensor, outputs: Tensor) -> Tensor:
        with torch.no_grad():
            taught = teacher(images)
        soft = distillation_loss(outputs, taught, recipe.distill_temperature)
        return (1 - recipe.distill_weight) * hard + recipe.distill_weight * soft

    return loss


def _start_or_resume(
    stepper: Stepper, options: Options, folder: RunFolder | None, data: ImageData, pretrained: Pretrained | None
) -> tuple[Progress, tuple[str, ...]]:
    found, notes = None, list[str]()
    if folder is not None:
        found, damaged = checkpoint.read(folder.path)
        notes = [f"{note}; resuming from the checkpoint before it" for note in damaged]
        config = _config(stepper, options, data)
        if pretrained is not None:
            config["pretrained"] = {"path": str(pretrained.path), "sha256": pretrained.sha256}
        if (folder.path / "config.json").exists():
            config = _with_attempt(read_config(folder.path), config, found)
        elif found is not None:
            # Without config.json the checkpoint itself says what it belongs to.
            _refuse_other_recipe(found.record.get("recipe"), config["recipe"])
            notes.append(f"{folder.path / 'config.json'} is missing: its record of the attempts before is lost")
        folder.write_config(config)
    found = broadcast_checkpoint(stepper.world, found)
    progress = Progress() if found is None else restore_(stepper, found)
    if folder is not None:
        for name in ("metrics.jsonl", "state.jsonl"):
            # Without a checkpoint the run starts over, and so do its records, including the state before step 0.
            notes += folder.keep_epochs(name, progress.epochs if found is not None else -1)
    return progress, tuple(notes)


def _config(stepper: Stepper, options: Options, data: ImageData) -> dict[str, Any]:
    model, device = stepper.model, stepper.world.device
    return {
        "recipe": stepper.recipe.to_json(),
        "network": {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "binary_weights": sum(layer.weight.numel() for _, layer in binary_layers(model)),
            "classes": list(data.classes),
            "input_shape": list(data.image_shape),
            "mean": list(data.mean),
            "std": list(data.std),
        },
        "images": {"train": len(stepper.data.train.images), "test": len(stepper.data.test.images)},
        "steps_per_epoch": stepper.steps_per_epoch,
        "total_steps": stepper.total_steps,
        "started": provenance.now(),
        "options": options.to_json(),
        "processes": stepper.world.size,
        "job": stepper.world.job,
        "threads": torch.get_num_threads(),
        "versions": provenance.versions(),
        "hardware": provenance.hardware(
            str(device), torch.cuda.get_device_name(device) if device.type == "cuda" else None
        ),
        "revision": provenance.revision(),
    }


def _with_attempt(
    recorded: dict[str, Any], config: dict[str, Any], found: checkpoint.Checkpoint | None
) -> dict[str, Any]:
    """The recorded configuration with this attempt added; the recipe must be the recorded one."""
    _refuse_other_recipe(recorded["recipe"], config["recipe"])
    step = 0 if found is None else found.record["progress"]["step"]
    attempt = {"step": step} | {name: config[name] for name in ATTEMPT}
    return recorded | {"resumed": [*recorded.get("resumed", []), attempt]}


def _refuse_other_recipe(recorded: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> None:
    if recorded is None:
        raise SignwiseError(
            "the folder has a checkpoint and no config.json, so nothing says which recipe the run was begun with: "
            "restore config.json, or choose another `out`"
        )
    begun = Recipe.from_json(recorded).to_json()
    changed = [f"{name} {begun[name]}, not {asked[name]}" for name in asked if begun[name] != asked[name]]
    if changed:
        raise SignwiseError(
            f"the run was begun with {'; '.join(changed)}: resume it with the same recipe, or choose another `out`"
        )


def _record_end(folder: RunFolder, progress: Progress) -> None:
    result = {
        "best_error": progress.best_error,
        "best_epoch": progress.best_epoch,
        "last_error": progress.last_error,
        "seconds": progress.seconds,
    }
    config = read_config(folder.path)
    if "finished" not in config:
        folder.write_config(config | {"finished": provenance.now(), "result": result})
