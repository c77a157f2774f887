"""The way in: a recipe and options go in, a trained network and its records come out, in a folder."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import torch
from torch import nn

from signwise import datasets, provenance
from signwise.datasets import ImageData
from signwise.errors import SignwiseError
from signwise.layers import binary_layers
from signwise.training import checkpoint as checkpoints
from signwise.training.device_images import to_device
from signwise.training.distributed import World, join_world
from signwise.training.layer_state import watched_layers
from signwise.training.loop import Loop, Outcome
from signwise.training.monitor import Monitor, monitor_for
from signwise.training.network import build_network
from signwise.training.options import Options
from signwise.training.recipe import Recipe
from signwise.training.run_folder import RunFolder, read_config
from signwise.training.saved_state import Progress, restore_, shared_checkpoint
from signwise.training.stepper import Stepper
from signwise.training.stopping import Stop, stop_on_signal


def train(recipe: Recipe, options: Options, monitor: Monitor | None = None) -> Outcome:
    """Train a recipe's network, or go on with a run that was interrupted.

    Within ``torchrun`` every process calls this with the same arguments.

    Args:
        recipe: what is learned.
        options: where and how.
        monitor: shows what happens; by default what suits the process and its output.

    Returns:
        How the run ended.

    Raises:
        SignwiseError: the folder holds another run, the data is missing, the disk is full, or the loss diverged.
    """
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    if options.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it matrix products refuse on CUDA
        torch.use_deterministic_algorithms(True)
    with join_world(options.device) as world, stop_on_signal() as stop:
        # The network lives in a function of its own, so that it is gone when the processes part. DDP owns a share of
        # the group: if it let go last, it would wait, holding Python's lock, for threads of the group that may need
        # that lock, https://github.com/pytorch/pytorch/issues/56297.
        return _train_among(world, recipe, options, monitor, stop)


def _train_among(world: World, recipe: Recipe, options: Options, monitor: Monitor | None, stop: Stop) -> Outcome:
    resume = options.resume or (world.restarts > 0 and _was_begun_by(world.job, options.out))
    folder = RunFolder(options.out, resume=resume) if world.is_main else None
    monitor = monitor or monitor_for(recipe, world.is_main)
    try:
        data = _load(recipe, options, world)
        network = build_network(recipe, len(data.classes)).to(world.device)
        if options.sync_batch_norm:
            if world.device.type == "cpu":
                raise SignwiseError("--sync-batch-norm needs an accelerator: PyTorch has none for the CPU")
            network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
        images = to_device(data, recipe, world.device)
        stepper = Stepper(recipe, options, network, images, world)
        layers = watched_layers(network, options.watch)
        progress = _start_or_resume(stepper, options, folder, monitor, data)
        test = (images.test_images, images.test_labels)
        loop = Loop(stepper, test, layers, options, folder, progress, monitor, stop)
        try:
            loop.run()
        finally:
            loop.close()
        if progress.step == stepper.total_steps:
            if folder is not None:
                _record_end(folder, progress)
            return Outcome(folder=options.out, progress=progress, signal=None, is_main=world.is_main)
        # Another process may have been asked to stop, and this one not.
        number = signal.SIGTERM if stop.signal is None else stop.signal
        return Outcome(folder=options.out, progress=progress, signal=number, is_main=world.is_main)
    finally:
        monitor.close()
        if folder is not None:
            folder.close()


def _was_begun_by(job: str | None, folder: Path) -> bool:
    """Whether the run in a folder is this very job's, from before a restart, and not one that was there already."""
    if not (folder / "config.json").exists():
        return True
    config = read_config(folder)
    return any(attempt.get("job") == job for attempt in (config, *config.get("resumed", [])))


def _load(recipe: Recipe, options: Options, world: World) -> ImageData:
    # Rank 0 first: it may have to download, and the others then find the files.
    if world.is_main:
        data = datasets.load(recipe.dataset, options.data)
    world.wait()
    return data if world.is_main else datasets.load(recipe.dataset, options.data)


def _start_or_resume(
    stepper: Stepper, options: Options, folder: RunFolder | None, monitor: Monitor, data: ImageData
) -> Progress:
    found = None
    if folder is not None:
        found, complaints = checkpoints.read(folder.path)
        for complaint in complaints:
            monitor.say(f"{complaint}; going on from the checkpoint before it")
        config = _config(stepper, options, data)
        if (folder.path / "config.json").exists():
            config = _continued(read_config(folder.path), config, found)
        folder.write_config(config)
    found = shared_checkpoint(stepper.world, found)
    progress = Progress() if found is None else restore_(stepper, found)
    if folder is not None:
        for name in ("metrics.jsonl", "state.jsonl"):
            # A run without a checkpoint starts over, and so do its records, with the state before the first step.
            folder.keep_epochs(name, progress.epochs if found is not None else -1)
    steps = f"{stepper.total_steps} steps"
    if found is None:
        monitor.say(f"{stepper.recipe.name}, {stepper.recipe.bits} bit: {steps} into {options.out}")
    else:
        monitor.say(f"resuming {options.out} after step {progress.step} of {steps}")
    return progress


def _config(stepper: Stepper, options: Options, data: ImageData) -> dict[str, Any]:
    network = stepper.network
    binary = sum(layer.weight.numel() for _, layer in binary_layers(network))
    return {
        "recipe": stepper.recipe.to_json(),
        "network": {
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "binary_weights": binary,
            "classes": list(data.classes),
            "input_shape": list(data.image_shape),
            "mean": list(data.mean),
            "std": list(data.std),
        },
        "steps_per_epoch": stepper.steps_per_epoch,
        "total_steps": stepper.total_steps,
    } | _attempt(stepper, options)


def _attempt(stepper: Stepper, options: Options) -> dict[str, Any]:
    return {
        "started": provenance.now(),
        "options": options.to_json(),
        "processes": stepper.world.size,
        "job": stepper.world.job,
        "threads": torch.get_num_threads(),
        "versions": provenance.versions(),
        "hardware": _hardware(stepper.world.device),
        "revision": provenance.revision(),
    }


def _hardware(device: torch.device) -> dict[str, Any]:
    return provenance.hardware(str(device), torch.cuda.get_device_name(device) if device.type == "cuda" else None)


def _continued(
    recorded: dict[str, Any], config: dict[str, Any], found: checkpoints.Checkpoint | None
) -> dict[str, Any]:
    """The recorded configuration with this attempt added to it; the recipe must be the one that was begun."""
    begun, asked = Recipe.from_json(recorded["recipe"]).to_json(), config["recipe"]
    changed = [f"{name} {begun[name]}, not {asked[name]}" for name in asked if begun[name] != asked[name]]
    if changed:
        raise SignwiseError(
            f"the run was begun with {'; '.join(changed)}: resume it with the same recipe or choose another --out"
        )
    names = ("started", "options", "processes", "job", "threads", "versions", "hardware", "revision")
    step = 0 if found is None else found.record["progress"]["step"]
    attempt = {"step": step} | {name: config[name] for name in names}
    return recorded | {"resumed": [*recorded.get("resumed", []), attempt]}


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
