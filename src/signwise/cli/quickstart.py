"""``signwise quickstart``: from training to a packed file that runs without PyTorch, in a few minutes."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError
from signwise.invocation import command
from signwise.text import counted

_SHIPPED = "lenet5-mnist-1bit"
_NAMES = (("32 bits, one file", 32), ("1 bit, one file", 1), ("1 bit, 200 epochs, in the package", 1))


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "quickstart",
        help="train, pack, run and compare, in a few minutes",
        description="Train LeNet5 on MNIST with 32 bits and with 1 bit per weight, side by side, with a short recipe; "
        "pack both, run the files without PyTorch, and compare. Started again, it resumes where it stopped.",
        epilog="example: signwise quickstart --out first-look",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("quickstart-out"), metavar="FOLDER", help="output folder (quickstart-out)"
    )
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the training images (4)")
    parser.add_argument("--train-samples", type=int, metavar="N", help="train on the first N images only")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder with MNIST (default: in the package)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, pack, measure, compare."""
    from signwise import quickstart
    from signwise.bench.measure import measure_without_torch
    from signwise.training.reporters import LEGEND

    changes = {name: getattr(arguments, name) for name in ("epochs", "train_samples")}
    changes = {name: value for name, value in changes.items() if value is not None}
    bits = quickstart.BITS
    recipes = {arguments.out / f"lenet5-{width}bit": quickstart.short_recipe(width, **changes) for width in bits}
    epochs = next(iter(recipes.values())).epochs
    count = counted(epochs, "epoch")
    print(f"LeNet5 on MNIST with 32 bits and with 1 bit per weight, {count} each, side by side")
    print(f"(a short recipe for a first look; the paper's takes 200 epochs: {command()} train lenet5-mnist)")
    print(LEGEND)
    done = [folder for folder in recipes if (folder / "last.safetensors").exists()]
    if done:
        print(f"already trained, in {' and '.join(map(str, done))}")
    try:
        quickstart.train_side_by_side(recipes, arguments.data)
    except KeyboardInterrupt:
        print(f"stopped; the same command resumes the training in {arguments.out}", file=sys.stderr)
        return 130

    packed = {width: quickstart.pack_run(folder) for width, folder in zip(bits, recipes, strict=True)}
    files = [path for path, _ in packed.values()]
    print("\ncompiled, saved, and run in a process that cannot import PyTorch:\n")
    measured = measure_without_torch([*files, *_shipped()], arguments.data)
    rows = [
        quickstart.Row(name=name, bits=width, error=result.error, size=result.size, seconds=result.seconds)
        for (name, width), result in zip(_NAMES, measured, strict=False)
    ]
    in_pytorch = quickstart.Row(
        name="32 bits, in PyTorch",
        bits=32,
        error=rows[0].error,
        size=(arguments.out / "lenet5-32bit" / "last.safetensors").stat().st_size,
        seconds=quickstart.pytorch_seconds(packed[32][1], "mnist", arguments.data),
    )
    rows.insert(0, in_pytorch)
    print(quickstart.table(rows))
    picture = arguments.out / "comparison.png"
    quickstart.draw(rows, picture)
    print(f"\nas a figure:         {picture}")
    print(f"the packed networks: {', '.join(map(str, files))}")
    print(f"next:                {command()} inspect {shlex.quote(str(files[-1]))}")
    return 0


def _shipped() -> list[Path]:
    from signwise import shipped

    try:
        return [shipped.resolve(_SHIPPED)]
    except SignwiseError:  # a checkout without the shipped file
        return []
