"""``signwise quickstart``: the whole way in a few minutes, from training to a packed file that runs without PyTorch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError

_SHIPPED = "lenet5-mnist-1bit"
_NAMES = (("32 bits, one file", 32), ("1 bit, one file", 1), ("1 bit, 200 epochs, shipped", 1))


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "quickstart",
        help="see the whole way in a few minutes",
        description="Train LeNet5 on MNIST with 32 bits and with 1 bit a weight, side by side, by a short recipe of "
        "its own; pack both, run the files without PyTorch, and compare. Started again, it goes on where it was.",
        epilog="example: signwise quickstart --out first-look",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("quickstart-out"),
        metavar="FOLDER",
        help="where everything goes (quickstart-out)",
    )
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the training images (4)")
    parser.add_argument("--train-samples", type=int, metavar="N", help="train on the first N images only")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where MNIST is (default: in the package)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, pack, measure, compare."""
    import torch  # noqa: F401 - first, so that its absence is told before anything is promised

    from signwise.quickstart.finish import Row, figure, measure_files, pack_run, pytorch_microseconds, table
    from signwise.quickstart.recipes import BITS, short_recipe
    from signwise.quickstart.side_by_side import train_side_by_side

    changes = {name: getattr(arguments, name) for name in ("epochs", "train_samples")}
    changes = {name: value for name, value in changes.items() if value is not None}
    recipes = {arguments.out / f"lenet5-{bits}bit": short_recipe(bits, **changes) for bits in BITS}
    epochs = next(iter(recipes.values())).epochs
    print(f"LeNet5 on MNIST with 32 bits and with 1 bit a weight, {epochs} epochs each, side by side")
    print("(a short recipe for a first look; the paper's takes 200 epochs: signwise train lenet5-mnist)")
    train_side_by_side(recipes, arguments.data)

    packed = {bits: pack_run(folder) for bits, folder in zip(BITS, recipes, strict=True)}
    files = [path for path, _, _ in packed.values()]
    shipped = _shipped()
    print("\ncompiled, saved, and run in a process that cannot import PyTorch:\n")
    measured = measure_files([*files, *shipped], arguments.data)
    rows = [
        Row(name=name, bits=bits, error=result["error"], size=result["bytes"], microseconds=result["microseconds"])
        for (name, bits), result in zip(_NAMES, measured, strict=False)
    ]
    _, trained, model = packed[32]
    in_pytorch = Row(
        name="32 bits, in PyTorch",
        bits=32,
        error=rows[0].error,
        size=(arguments.out / "lenet5-32bit" / "last.safetensors").stat().st_size,
        microseconds=pytorch_microseconds(model, trained.recipe.dataset, arguments.data),
    )
    rows.insert(0, in_pytorch)
    print(table(rows))
    picture = arguments.out / "comparison.png"
    figure(rows, picture)
    print(f"\nthe same as a figure: {picture}")
    print(f"the packed networks:  {', '.join(map(str, files))}")
    print(f"go on with:           signwise inspect {files[-1]}")
    return 0


def _shipped() -> list[Path]:
    from signwise import shipped

    try:
        return [shipped.resolve(_SHIPPED)]
    except SignwiseError:  # a checkout from before it was trained
        return []
