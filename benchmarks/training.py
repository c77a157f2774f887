"""The speed of training on a CPU, and the engine's overhead over a bare PyTorch loop.

    python benchmarks/training.py              # about three minutes; writes results/training.json

**Overhead.** The bare loop trains the same network with the same tensors and optimizer.
It picks a batch by index, runs forward and backward, and steps: no schedule, no checks, no display, no
records. The two take turns, one step each, in one process, so that a slow moment of the machine hits both. The time is
the CPU time of the process, which other programs disturb less than the wall clock. Reported are the best turns, and the
median over all turns of the ratio within a turn.

**Speed.** Images per second of whole epochs, tests included, from the CPU time of a step and of a test: in float32 with
a second test of the relaxed weights after every epoch, then with fewer of these, in bfloat16, and compiled. Only LeNet5
is compiled: for ResNet-20, ``torch.compile`` takes minutes of one core, more than a short training wins back. Where
tcmalloc is installed, bfloat16 is measured once more in a process of its own that allocates memory with it.
"""

from __future__ import annotations

import argparse
import ctypes.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from signwise import datasets
from signwise.datasets import ImageData, Split
from signwise.provenance import write_record
from signwise.training import Options, Recipe, get_recipe
from signwise.training.checkpoint import Progress
from signwise.training.data import TrainingData, standardized_data
from signwise.training.distributed import World
from signwise.training.evaluate import score
from signwise.training.loop import Loop
from signwise.training.reporters import PlainReporter
from signwise.training.run_folder import RunFolder
from signwise.training.step import Stepper, build_model, build_optimizer

CASES = (("lenet5-mnist", 1, 150), ("lenet5-mnist", 32, 150), ("resnet20-cifar10", 1, 15))  # recipe, bits, turns
SPEED_CASES = (("lenet5-mnist", 40), ("resnet20-cifar10", 6), ("vgg_fast-cifar10", 4))  # recipe with 1 bit, turns
IMAGES = {"mnist": (60_000, 10_000), "cifar10": (50_000, 10_000)}  # of an epoch, and of a test
TESTED = 500
BFLOAT16 = "bfloat16, every 10 epochs"
# What a run can choose, and how many tests of all test images there are per epoch.
SETTINGS: dict[str, tuple[Options, float]] = {
    "float32, relaxed weights tested every epoch": (Options(), 2.0),
    "float32, every 10 epochs": (Options(), 1.1),
    BFLOAT16: (Options(bfloat16=True), 1.1),
    "bfloat16 and torch.compile, every 10 epochs": (Options(bfloat16=True, compiled=True), 1.1),
}
COMPILED = "lenet5-mnist"  # the one recipe whose compilation is measured
CPU = torch.device("cpu")


def random_images(name: str, count: int) -> ImageData:
    """Noise in the shape of a data set: the time of a step does not depend on the images."""
    known, rng = datasets.DATASETS[name], np.random.default_rng(0)
    images = rng.integers(0, 256, (count, *known.image_shape), dtype=np.uint8)
    labels = np.arange(count) % len(known.classes)
    return ImageData(
        name=name,
        classes=known.classes,
        train=Split(images, labels),
        test=Split(images[:10], labels[:10]),
    )


def engine(chosen: Recipe, data: TrainingData, folder: Path) -> Callable[[int], None]:
    """Training as in `signwise train`."""
    world = World(rank=0, size=1, device=CPU)
    model = build_model(chosen, int(data.train.labels.max()) + 1)
    stepper = Stepper(chosen, Options(device="cpu"), model, data, world)
    return Loop(stepper, Progress(), RunFolder(folder, resume=False), reporters=[PlainReporter()]).run


def bare_loop(chosen: Recipe, data: TrainingData) -> Callable[[int], None]:
    """The shortest loop that trains the same network."""
    network = build_model(chosen, int(data.train.labels.max()) + 1).train()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # PyTorch does not annotate it
    optimizer = build_optimizer(chosen, network)
    order, size = torch.randperm(len(data.train.images)), chosen.batch_size
    done = 0

    def run(steps: int) -> None:
        nonlocal done
        for _ in range(steps):
            indices = order[done * size : (done + 1) * size]
            batch = data.train.images[indices].to(memory_format=torch.channels_last)
            optimizer.zero_grad()
            F.cross_entropy(network(batch), data.train.labels[indices]).backward()
            optimizer.step()
            done += 1

    return run


def compare(name: str, bits: int, turns: int) -> dict[str, Any]:
    """CPU time per step of both in milliseconds, and the engine's overhead in percent."""
    # Neither augments: augmentation belongs to the recipe, not to the engine.
    chosen = get_recipe(name, bits).changed(flip=False, translate=0, zoom=0.0, rotate=0.0)
    # Enough images that no epoch ends, because that would add an evaluation.
    data = standardized_data(random_images(chosen.dataset, chosen.batch_size * (turns + 2)), CPU)
    with tempfile.TemporaryDirectory() as folder:
        runs = {"engine": engine(chosen, data, Path(folder) / "run"), "bare": bare_loop(chosen, data)}
        times: dict[str, list[float]] = {kind: [] for kind in runs}
        for run in runs.values():
            run(1)
        for turn in range(turns):
            # The order alternates, because the second finds the caches as the first left them.
            for kind in sorted(runs, reverse=turn % 2 == 0):
                start = time.process_time()
                runs[kind](1)
                times[kind].append(1000 * (time.process_time() - start))
    best = {kind: min(measured) for kind, measured in times.items()}
    ratios = [with_engine / bare for with_engine, bare in zip(times["engine"], times["bare"], strict=True)]
    return {
        "recipe": name,
        "bits": bits,
        "batch_size": chosen.batch_size,
        "turns": turns,
        "milliseconds": best,
        "overhead_percent": {
            "best": 100 * (best["engine"] / best["bare"] - 1),
            "median": 100 * (statistics.median(ratios) - 1),
        },
    }


def speed(name: str, turns: int, settings: Mapping[str, tuple[Options, float]] = SETTINGS) -> dict[str, Any]:
    """Images per second of CPU time, by setting, of epochs with their tests."""
    chosen = get_recipe(name)
    world = World(rank=0, size=1, device=CPU)
    data = standardized_data(random_images(chosen.dataset, max(2 * chosen.batch_size, TESTED)), CPU)
    tested = data.train.first(TESTED)
    steppers = {}
    settings = {setting: how for setting, how in settings.items() if name == COMPILED or not how[0].compiled}
    for setting, (options, _) in settings.items():
        model = build_model(chosen, int(data.train.labels.max()) + 1).train()
        steppers[setting] = Stepper(chosen, options, model, data, world)
    steps: dict[str, list[float]] = {setting: [] for setting in steppers}
    tests: dict[str, list[float]] = {setting: [] for setting in steppers}
    for turn in range(turns + 1):  # the first one prepares, and compiles
        for setting, stepper in steppers.items():
            started = time.process_time()
            stepper.step(turn)
            between = time.process_time()
            if turn % 2 == 0:
                score(stepper.model, tested, world)
                tests[setting].append(time.process_time() - between)
            steps[setting].append(between - started)
    trained, in_test = IMAGES[chosen.dataset]
    rows = []
    for setting, (_, tests_per_epoch) in settings.items():
        step, test = min(steps[setting][1:]), min(tests[setting]) / TESTED
        seconds = trained * step / chosen.batch_size + tests_per_epoch * in_test * test
        rows.append({"setting": setting, "step_milliseconds": 1000 * step, "images_per_second": trained / seconds})
    return {"recipe": name, "batch_size": chosen.batch_size, "turns": turns, "rows": rows}


def speed_with_tcmalloc(name: str, threads: int) -> list[dict[str, Any]]:
    """The row of bfloat16 in a process with tcmalloc; none where it is not installed."""
    library = ctypes.util.find_library("tcmalloc_minimal")
    if library is None:
        return []
    command = [sys.executable, __file__, "--bfloat16-of", name, "--threads", str(threads)]
    done = subprocess.run(
        command, env=os.environ | {"LD_PRELOAD": library}, stdout=subprocess.PIPE, text=True, check=True
    )
    (row,) = json.loads(done.stdout)["rows"]
    return [row | {"setting": f"bfloat16 and tcmalloc, {BFLOAT16.partition(', ')[2]}"}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("results/training.json"), help="where the record goes")
    parser.add_argument("--bfloat16-of", metavar="RECIPE", help="print the speed of this recipe in bfloat16 alone")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.bfloat16_of is not None:
        name = arguments.bfloat16_of
        print(json.dumps(speed(name, dict(SPEED_CASES)[name], {BFLOAT16: SETTINGS[BFLOAT16]})))
        return
    cases = []
    for name, bits, turns in CASES:
        case = compare(name, bits, turns)
        cases.append(case)
        best, overhead = case["milliseconds"], case["overhead_percent"]
        print(
            f"{name} {bits} bit: engine {best['engine']:.1f} ms, bare loop {best['bare']:.1f} ms per step; "
            f"overhead {overhead['best']:.1f} % (best), {overhead['median']:.1f} % (median)"
        )
    speeds = []
    for name, turns in SPEED_CASES:
        found = speed(name, turns)
        found["rows"] += speed_with_tcmalloc(name, arguments.threads)
        speeds.append(found)
        for row in found["rows"]:
            print(f"{name} 1 bit, {row['setting']}: {row['images_per_second']:.0f} images per second")
    write_record(arguments.out, {"threads": arguments.threads, "cases": cases, "speeds": speeds})


if __name__ == "__main__":
    main()
