"""Measure what the paper leaves open: LeNet5 for a few hundred steps, one choice changed at a time."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import torch

from signwise import datasets, provenance
from signwise.reproduce.choices import Choice, choices
from signwise.reproduce.openings import FILE
from signwise.training.device_images import DeviceImages, to_device
from signwise.training.distributed import World
from signwise.training.evaluate import score
from signwise.training.options import Options
from signwise.training.recipe import Recipe
from signwise.training.recipes import recipe as named_recipe
from signwise.training.stepper import Stepper

_EPOCHS, _IMAGES, _TEST_IMAGES, _SEEDS = 10, 3000, 2000, 3


def measure_openings(
    results: Path,
    say: Callable[[str], None],
    *,
    data: Path | None = None,
    epochs: int = _EPOCHS,
    images: int = _IMAGES,
    test_images: int = _TEST_IMAGES,
    seeds: int = _SEEDS,
) -> Path:
    """Train every choice with a few seeds and record the errors.

    Args:
        results: the folder of results.
        say: is told each result.
        data: where MNIST is, or ``None`` for the one in the package.
        epochs: length of each training.
        images: training images.
        test_images: test images.
        seeds: trainings of each choice.

    Returns:
        The record's path.
    """
    recipe = named_recipe("lenet5-mnist").changed(epochs=epochs, train_samples=images, test_samples=test_images)
    cpu = torch.device("cpu")
    pixels = to_device(datasets.load(recipe.dataset, data), recipe, cpu)
    measured = []
    for index, choice in enumerate(choices(recipe)):
        errors = [trained_error(choice, recipe.changed(seed=seed), pixels) for seed in range(seeds)]
        mean, deviation = statistics.fmean(errors), statistics.stdev(errors) if seeds > 1 else 0.0
        say(f"{choice.question}, {choice.answer}: {mean:.2f} ± {deviation:.2f} %")
        measured.append(
            {
                "question": choice.question,
                "choice": choice.answer,
                "is_ours": index == 0,
                "mean": round(mean, 4),
                "deviation": round(deviation, 4),
                "errors": [round(error, 4) for error in errors],
            }
        )
    path = results / FILE
    record = {
        "kind": "openings",
        "network": "LeNet5",
        "epochs": epochs,
        "images": images,
        "test_images": test_images,
        "seeds": seeds,
        "recipe": recipe.to_json(),
        "choices": measured,
    }
    provenance.write_record(path, record)
    return path


def trained_error(choice: Choice, recipe: Recipe, images: DeviceImages) -> float:
    """The error of sign(φ), in percent, after training with a choice."""
    world = World(rank=0, size=1, device=torch.device("cpu"))
    changed = recipe.changed(**choice.settings)
    network = choice.network(changed)
    seen = choice.images(images)
    stepper = Stepper(changed, Options(out=Path("unused")), network, seen, world)
    choice.decay(stepper)
    network.train()
    for step in range(stepper.total_steps):
        batch = stepper.batch(step)
        stepper.prepare(step)
        stepper.forward_backward(*batch)
        stepper.update()
    return score(network, seen.test_images, seen.test_labels, world).error
