"""What binary weights cost in training: the transform's share of a step.

    python benchmarks/overhead.py              # a few minutes; writes results/overhead.json

Two measurements, each the best and the median of runs in turn in one process:

1. ResNet-18: the transform, forward and backward over all binary layers, divided by a float32 training step at batch
   128.
2. LeNet5: a whole binary training step at batch 100, against the float32 step of the same network.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import signwise as sw
from signwise.bench.timing import alternate
from signwise.provenance import write_record


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
    resnet_times = alternate({"step": float_step, "transform": transforms(binary_resnet)}, seconds=0, least_rounds=3)
    step, transform = resnet_times["step"], resnet_times["transform"]

    binary_lenet = sw.models.lenet5()
    sw.binarize_(binary_lenet, skip=sw.last)
    steps = {
        name: training_step(model, (100, 1, 28, 28))
        for name, model in (("float", sw.models.lenet5()), ("binary", binary_lenet))
    }
    lenet_times = alternate(steps, seconds=0, least_rounds=60)
    plain, binary = lenet_times["float"], lenet_times["binary"]

    record = {
        "threads": arguments.threads,
        "resnet18": {
            "step_seconds": {"best": step.best, "median": step.median},
            "transform_seconds": {"best": transform.best, "median": transform.median},
            "share_percent": {"best": 100 * transform.best / step.best, "median": 100 * transform.median / step.median},
        },
        "lenet5": {
            "float_step_seconds": {"best": plain.best, "median": plain.median},
            "binary_step_seconds": {"best": binary.best, "median": binary.median},
            "overhead_percent": {
                "best": 100 * (binary.best / plain.best - 1),
                "median": 100 * (binary.median / plain.median - 1),
            },
        },
    }
    write_record(arguments.out, record)
    for network, label in (("resnet18", "share_percent"), ("lenet5", "overhead_percent")):
        best, median = record[network][label]["best"], record[network][label]["median"]
        print(f"{network}: {label.replace('_', ' ')} {best:.1f} (best), {median:.1f} (median)")


if __name__ == "__main__":
    main()
