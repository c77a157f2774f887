"""What binary weights cost in training: the transform's share of a step.

    python benchmarks/overhead.py              # a few minutes; writes results/overhead.json

Two figures, each the best and the median of alternating repetitions in one process:

1. ResNet-18: the transform, forward and backward over all its binary layers, divided by a float32 training step at
   batch 128.
2. LeNet5: a whole binary training step at batch 100 against the float32 step of the same network.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import signwise as sw
from signwise.provenance import write_record


def seconds(actions: Sequence[Callable[[], None]], repetitions: int) -> list[tuple[float, float]]:
    """Best and median time of each action, alternating between them so that a slow moment hits all alike."""
    times: list[list[float]] = [[] for _ in actions]
    for action in actions:
        action()
    for _ in range(repetitions):
        for action, measured in zip(actions, times, strict=True):
            start = time.perf_counter()
            action()
            measured.append(time.perf_counter() - start)
    return [(min(measured), statistics.median(measured)) for measured in times]


def training_step(model: nn.Module, shape: tuple[int, ...]) -> Callable[[], None]:
    images, labels = torch.randn(shape), torch.randint(0, 10, shape[:1])
    optimizer = sw.SGDW(sw.param_groups(model, 1e-3), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def transforms(model: nn.Module) -> Callable[[], None]:
    gradients = {name: torch.randn_like(layer.weight) for name, layer in sw.binary_layers(model)}

    def forward_and_backward() -> None:
        for name, layer in sw.binary_layers(model):
            layer.weight.grad = None
            layer.relaxed_weight().backward(gradients[name])

    return forward_and_backward


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("results/overhead.json"), help="where the record goes")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)

    resnet = sw.models.resnet18()
    float_step = training_step(resnet, (128, 3, 32, 32))
    binary_resnet = sw.models.resnet18()
    sw.binarize_(binary_resnet)
    (step_best, step_median), (share_best, share_median) = seconds([float_step, transforms(binary_resnet)], 3)

    binary_lenet = sw.models.lenet5()
    sw.binarize_(binary_lenet, skip=sw.last)
    steps = [training_step(model, (100, 1, 28, 28)) for model in (sw.models.lenet5(), binary_lenet)]
    (plain_best, plain_median), (binary_best, binary_median) = seconds(steps, 60)

    record = {
        "threads": arguments.threads,
        "resnet18": {
            "step_seconds": {"best": step_best, "median": step_median},
            "transform_seconds": {"best": share_best, "median": share_median},
            "share_percent": {"best": 100 * share_best / step_best, "median": 100 * share_median / step_median},
        },
        "lenet5": {
            "float_step_seconds": {"best": plain_best, "median": plain_median},
            "binary_step_seconds": {"best": binary_best, "median": binary_median},
            "overhead_percent": {
                "best": 100 * (binary_best / plain_best - 1),
                "median": 100 * (binary_median / plain_median - 1),
            },
        },
    }
    write_record(arguments.out, record)
    for network, label in (("resnet18", "share_percent"), ("lenet5", "overhead_percent")):
        best, median = record[network][label]["best"], record[network][label]["median"]
        print(f"{network}: {label.replace('_', ' ')} {best:.1f} (best), {median:.1f} (median)")


if __name__ == "__main__":
    main()
