"""``signwise list``: the recipes and their cost."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterable
from typing import Any

from signwise.invocation import install
from signwise.text import aligned

_HEADINGS = ("recipe", "bits", "parameters", "binary", "MACs", "epochs", "batch", "lr", "wd", "T_alpha")


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "list",
        help="show the recipes",
        description="Show the recipes of the paper, with the size of their models and their settings.",
        epilog="example: signwise list, then: signwise train resnet20-cifar10",
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    from signwise.training import RECIPES, get_recipe

    recipes = [get_recipe(name, bits) for name in RECIPES for bits in (1, 32)]
    sizes = _sizes(RECIPES)
    costs = [sizes.get(entry.name, {}) | ({} if entry.bits == 1 else {"binary_weights": 0}) for entry in recipes]
    if arguments.json:
        print(json.dumps([entry.to_json() | cost for entry, cost in zip(recipes, costs, strict=True)], indent=2))
        return 0
    rows = [
        (
            entry.name,
            str(entry.bits),
            f"{cost['parameters']:,}" if "parameters" in cost else "?",
            f"{cost['binary_weights']:,}" if cost.get("binary_weights") else "-" if "binary_weights" in cost else "?",
            f"{cost['macs'] / 1e6:,.1f} M" if "macs" in cost else "?",
            str(entry.epochs),
            str(entry.batch_size),
            f"{entry.learning_rate:g}",
            f"{entry.weight_decay:g}",
            "-" if entry.t_alpha is None else f"{entry.t_alpha:g}",
        )
        for entry, cost in zip(recipes, costs, strict=True)
    ]
    print(aligned([_HEADINGS, *rows]))
    if not sizes:
        print(f"the sizes need torch: {install('torch')}", file=sys.stderr)
    return 0


def _sizes(recipes: Iterable[str]) -> dict[str, dict[str, int]]:
    """The size of each recipe's model; empty without PyTorch, which builds them."""
    from signwise.training import get_recipe

    try:
        from signwise.training.evaluate import network_cost
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return {}
    return {name: dataclasses.asdict(network_cost(get_recipe(name))) for name in recipes}
