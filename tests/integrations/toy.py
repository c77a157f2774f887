"""A small binary model and its data, and processes that die in the middle of a training."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import signwise as sw

IMAGES, BATCH = 48, 8

_FORKS = multiprocessing.get_context("forkserver")
# Imported once, in a server from which each process is forked.
_FORKS.set_forkserver_preload(["tests.integrations.toy", "signwise.integrations.lightning", "transformers.trainer"])


def images() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(IMAGES, 12, generator=generator), torch.randint(0, 3, (IMAGES,), generator=generator)


def network(method: sw.Method | None = None) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU()),
        *(nn.Linear(16, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU()),
        nn.Linear(16, 3),
    )
    sw.binarize_(model, skip=sw.first_and_last, method=method or sw.GroupTransform())
    return model


def alpha(model: nn.Module) -> float:
    (layer,) = (layer for _, layer in sw.binary_layers(model))
    return float(layer.alpha)


def die() -> None:
    """End this process as a crash does: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def in_a_process(function: Callable[..., Any], *arguments: Any) -> int | None:
    """Run a function in a process of its own, and return the exit code."""
    process = _FORKS.Process(target=function, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def assert_same_weights(first: nn.Module, second: nn.Module) -> None:
    ours, theirs = first.state_dict(), second.state_dict()
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    assert not different, different
