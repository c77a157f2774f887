"""Randomness as a pure function of the seed and of where training stands.

Order, augmentation and the generator that layers draw from are seeded anew, for each epoch or step, with a number made
of (seed, purpose, index). So there is no random state to save: a run that resumes at step t draws what the run that
was never stopped drew at step t, and every process of a distributed run knows the order of all of them.
"""

from __future__ import annotations

import hashlib

import torch


def derived_seed(seed: int, purpose: str, index: int) -> int:
    """A 63-bit seed for one purpose at one place; different in every argument, the same on every machine.

    Example:
        >>> derived_seed(0, "order", 0) != derived_seed(0, "order", 1)
        True
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def epoch_order(seed: int, epoch: int, count: int, device: torch.device) -> torch.Tensor:
    """The order in which the ``count`` training images are visited in an epoch.

    Drawn on the CPU whatever the device, so that the same seed means the same order everywhere.
    """
    generator = torch.Generator().manual_seed(derived_seed(seed, "order", epoch))
    return torch.randperm(count, generator=generator).to(device)


def seed_layers(seed: int, device: torch.device) -> None:
    """Seed the generators that random layers on a device draw from.

    ``torch.manual_seed`` does the same for every kind of device there could be, which takes a part of a small network's
    step.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        accelerator = torch.get_device_module(device)
        # Where there can be several devices, plain manual_seed means the current one, which need not be this one.
        getattr(accelerator, "manual_seed_all", accelerator.manual_seed)(seed)
