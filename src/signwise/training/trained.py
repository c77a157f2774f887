"""What a run has learned, read back from its folder."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from signwise import datasets
from signwise.convert import relaxed
from signwise.errors import SignwiseError
from signwise.models import Standardize
from signwise.training import checkpoint as checkpoints
from signwise.training.device_images import to_device
from signwise.training.distributed import World
from signwise.training.evaluate import score
from signwise.training.network import binarization_schedule, build_network
from signwise.training.recipe import Recipe
from signwise.training.run_folder import read_config, recorded_data
from signwise.training.saved_state import load_network_


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A network with its history.

    Args:
        recipe: what was trained.
        network: the network in evaluation mode, on the CPU, with the α and ζ of its step.
        config: the run's ``config.json``.
        step: the step after which the weights were saved.
    """

    recipe: Recipe
    network: nn.Module
    config: dict[str, Any]
    step: int

    def on_raw_pixels(self) -> nn.Module:
        """The network as it is shipped: what training did once to all images becomes its first operation."""
        described = self.config["network"]
        standardize = Standardize(described["mean"], described["std"])
        return nn.Sequential(OrderedDict(standardize=standardize, network=self.network))


def load_run(folder: Path, which: str = "best") -> Trained:
    """The network of a run.

    Args:
        folder: the run's folder.
        which: ``best`` for the epoch with the lowest error, ``last`` for the newest weights; of a run that is still
            going on, those of its checkpoint.

    Raises:
        SignwiseError: the folder holds no run, or the run has no weights yet.
    """
    if which not in ("best", "last"):
        raise SignwiseError(f"which must be best or last, got {which!r}")
    config = read_config(folder)
    recipe = Recipe.from_json(config["recipe"])
    network = build_network(recipe, len(config["network"]["classes"]))
    path = folder / f"{which}.safetensors"
    found = checkpoints.read_tensors(path) if path.exists() else checkpoints.read(folder)[0]
    if found is None:
        raise SignwiseError(f"the run in {folder} has no weights yet: wait for its first checkpoint")
    load_network_(network, dict(found.tensors))
    step: int = found.record.get("progress", found.record)["step"]
    schedule = binarization_schedule(recipe, config["steps_per_epoch"])
    if schedule is not None:
        schedule.apply_(network, max(step - 1, 0))
    return Trained(recipe=recipe, network=network.eval(), config=config, step=step)


def evaluate_run(
    folder: Path, which: str, *, device: torch.device, data: Path | None = None, samples: int | None = None
) -> dict[str, Any]:
    """The error of a run's network on the test images, and that of its relaxed weights.

    Args:
        folder: the run's folder.
        which: ``best`` or ``last``.
        device: where to compute.
        data: folder with the data set, or ``None`` for the one that the run was trained on.
        samples: test on the first so many images, or ``None`` for those that the recipe tests on.

    Returns:
        What was tested, on how many images, and the errors in percent.
    """
    trained = load_run(folder, which)
    recipe, network = trained.recipe, trained.network.to(device)
    world = World(rank=0, size=1, device=device)
    folder_of_data = data or recorded_data(trained.config)
    images = to_device(datasets.load(recipe.dataset, folder_of_data), recipe, device)
    test = images.test_images[:samples], images.test_labels[:samples]
    deployed = score(network, *test, world)
    with_relaxed = None
    if recipe.bits == 1:
        with relaxed(network):
            with_relaxed = score(network, *test, world).error
    return {
        "what": f"{folder} ({recipe.name}, {recipe.bits} bit, {which} weights, step {trained.step})",
        "dataset": recipe.dataset,
        "images": len(test[0]),
        "error": deployed.error,
        "loss": deployed.loss,
        "relaxed_error": with_relaxed,
    }
