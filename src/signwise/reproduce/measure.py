"""The time of a training step, measured on this machine before hours are spent.

Of a large network a few images serve as well as a full batch: the time of a step is nearly proportional to them, and a
batch of a wide network may not even fit beside what else the machine does. A small network needs its full batch, since
what a step costs besides its images (the update, the transform of the weights) would weigh too much.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch

from signwise import datasets
from signwise.training.cost import network_cost
from signwise.training.device_images import DeviceImages
from signwise.training.distributed import World, pick_device
from signwise.training.network import build_network
from signwise.training.options import Options
from signwise.training.recipe import Recipe
from signwise.training.stepper import Stepper

_STEPS = 3
# Multiply-adds of a step, forward and backward, that a core does in a fraction of a second.
_CPU_MACS = 20_000_000_000


def seconds_per_image(
    recipe: Recipe, device: str = "auto", threads: int | None = None, images: int | None = None
) -> float:
    """The time that training spends on one image: forward, backward and update, augmentation included.

    Args:
        recipe: the network and its settings; the images are noise of the right shape.
        device: where to measure.
        threads: CPU threads, or ``None`` for PyTorch's choice.
        images: images a step; by default the recipe's batch, on a CPU no more than some seconds' work.

    Returns:
        Seconds, by the fastest of three steps after one that warms up.
    """
    place = pick_device(device)
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        count = images or _measured_images(recipe, place)
        stepper = _stepper(recipe.changed(batch_size=count, train_samples=count, test_samples=1), place)
        times = [_step_seconds(stepper, step, place) for step in range(1 + _STEPS)]
    finally:
        torch.set_num_threads(before)
    return min(times[1:]) / count


def _measured_images(recipe: Recipe, device: torch.device) -> int:
    if device.type != "cpu":
        return recipe.batch_size
    enough = _CPU_MACS // (3 * network_cost(recipe).macs)
    return min(recipe.batch_size, max(enough, 4))


def _stepper(recipe: Recipe, device: torch.device) -> Stepper:
    dataset = datasets.NAMES[recipe.dataset]
    classes = len(dataset.classes)
    random = np.random.default_rng(0)
    count = recipe.batch_size
    pixels = torch.from_numpy(random.standard_normal((count, *dataset.image_shape), dtype=np.float32)).to(device)
    labels = torch.from_numpy(random.integers(0, classes, count)).to(device)
    noise = DeviceImages(train_images=pixels, train_labels=labels, test_images=pixels[:1], test_labels=labels[:1])
    network = build_network(recipe, classes).to(device).train()
    world = World(rank=0, size=1, device=device)
    return Stepper(recipe, Options(out=Path("unused")), network, noise, world)


def _step_seconds(stepper: Stepper, step: int, device: torch.device) -> float:
    start = time.perf_counter()
    images, labels = stepper.batch(step)
    stepper.prepare(step)
    stepper.forward_backward(images, labels)
    stepper.update()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter() - start
