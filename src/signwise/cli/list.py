"""``signwise list``: the recipes, with what they cost."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

_HEADINGS = ("recipe", "bits", "parameters", "binary", "MACs", "epochs", "batch", "lr", "wd", "T_alpha")


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "list",
        help="show the recipes",
        description="Show the recipes of the paper, with the size of their networks and their settings.",
        epilog="example: signwise list, then: signwise train resnet20-cifar10",
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    from signwise.training import NAMES, recipe
    from signwise.training.cost import network_cost

    recipes = [recipe(name, bits) for name in NAMES for bits in (1, 32)]
    sizes = {name: network_cost(recipe(name)) for name in NAMES}
    costs = [
        sizes[entry.name] if entry.bits == 1 else dataclasses.replace(sizes[entry.name], binary_weights=0)
        for entry in recipes
    ]
    if arguments.json:
        records = [entry.to_json() | vars(cost) for entry, cost in zip(recipes, costs, strict=True)]
        print(json.dumps(records, indent=2))
        return 0
    rows = [
        (
            entry.name,
            str(entry.bits),
            f"{cost.parameters:,}",
            f"{cost.binary_weights:,}" if cost.binary_weights else "-",
            f"{cost.macs / 1e6:,.1f} M",
            str(entry.epochs),
            str(entry.batch_size),
            f"{entry.learning_rate:g}",
            f"{entry.weight_decay:g}",
            "-" if entry.t_alpha is None else f"{entry.t_alpha:g}",
        )
        for entry, cost in zip(recipes, costs, strict=True)
    ]
    widths = [max(len(row[column]) for row in (_HEADINGS, *rows)) for column in range(len(_HEADINGS))]
    for row in (_HEADINGS, *rows):
        name, *numbers = row
        cells = [text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)]
        print("  ".join([name.ljust(widths[0]), *cells]))
    return 0
