"""``signwise plot``: the figures of a run, while it trains or afterwards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError

_EXAMPLES = """examples:
  signwise plot runs/lenet5-mnist                    errors, progress and, with 1 bit, movement and state
  signwise plot runs/lenet5-mnist --out figures --format svg
"""


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "plot",
        help="draw the figures of a run",
        description="Draw the error curves of a run, and the state of its watched layers as in the paper's figure.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="RUN", type=Path, help="a run's folder; it may still be training")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for the figures (default: the run's folder)")
    parser.add_argument("--format", choices=("png", "svg"), default="png", help="png by default")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Draw the figures and print their paths."""
    from signwise.figures import save
    from signwise.figures.curves import error_curves_figure, movement_figure
    from signwise.figures.layer_state import layer_state_figure
    from signwise.figures.lines import lines_figure
    from signwise.report import RunRecord, progress_panels
    from signwise.training.recipe import Recipe
    from signwise.training.records import read_config, read_records, schedule_corners

    folder: Path = arguments.folder
    config = read_config(folder)
    recipe = Recipe.from_json(config["recipe"])
    rows = read_records(folder / "metrics.jsonl")
    if not rows:
        raise SignwiseError(f"the run in {folder} has not finished an epoch yet")
    out = arguments.out or folder
    title = f"{recipe.name}, {recipe.bits} bit, seed {recipe.seed}"
    curves = {name: [row[name] for row in rows] for name in ("error", "relaxed_error", "train_error")}
    figures = {"errors": error_curves_figure(curves, title)}
    run = RunRecord(name="", recipe=recipe, config=config, epochs=rows, states=[])
    figures["progress"] = lines_figure(progress_panels([run]), title)
    movement = {name: [row.get(name) for row in rows] for name in ("flipped_signs", "relative_step")}
    if all(any(values) for values in movement.values()):  # older runs did not record it, and 32-bit runs have none
        figures["movement"] = movement_figure(movement, title)
    states = read_records(folder / "state.jsonl")
    layers = list(dict.fromkeys(state["layer"] for state in states))
    for layer in layers:
        name = "state" if len(layers) == 1 else f"state-{layer}"
        history = [state for state in states if state["layer"] == layer]
        figures[name] = layer_state_figure(history, f"{title}, layer {layer}", schedules=schedule_corners(config))
    for name, figure in figures.items():
        path = out / f"{name}.{arguments.format}"
        save(figure, path)
        print(path)
    return 0
