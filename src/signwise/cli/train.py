"""``signwise train``: carry out a recipe, in a folder, and go on with it after an interruption."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError
from signwise.training.options import Options
from signwise.training.recipe import Recipe
from signwise.training.recipes import recipe as named_recipe

_EXAMPLES = """examples:
  signwise train lenet5-mnist --epochs 5             a first look: a few minutes on a CPU
  signwise train lenet5-mnist --bits 32              the full-precision twin of the paper's experiment
  signwise train resnet18-cifar10 --data ~/cifar     with files that you already have
  signwise train lenet5-mnist --resume               go on after a crash, a kill or Ctrl-C
  torchrun --nproc-per-node 8 --max-restarts 3 -m signwise train resnet18-cifar10 --resume
"""
_NOT_FLAGS = ("name", "bits")


def _fractions(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(",") if part.strip())


_fractions.__name__ = "list of fractions such as 0.3,0.6"
_KINDS: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "int | None": int,
    "float | None": float,
    "tuple[float, ...]": _fractions,
}


def _add_recipe_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the recipe's settings", "Each replaces the value of the recipe.")
    for entry in dataclasses.fields(Recipe):
        if entry.name in _NOT_FLAGS:
            continue
        flag = entry.metadata["flag"] or "--" + entry.name.replace("_", "-")
        help_text = entry.metadata["help"]
        if entry.type == "bool":
            group.add_argument(flag, dest=entry.name, action=argparse.BooleanOptionalAction, help=help_text)
        else:
            kind = _KINDS[str(entry.type)]
            metavar = {int: "N", float: "X", str: "NAME"}.get(kind, "X,Y")
            group.add_argument(flag, dest=entry.name, type=kind, metavar=metavar, help=help_text)


def _add_option_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how and where")
    group.add_argument("--out", type=Path, metavar="FOLDER", help="the run's folder (default: runs/RECIPE)")
    group.add_argument("--data", type=Path, metavar="FOLDER", help="where the data set is (default: the cache)")
    group.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint, or start if none")
    group.add_argument(
        "--device", default="auto", help="cpu, cuda, cuda:1 ... (default: an accelerator if there is one)"
    )
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads of each process")
    group.add_argument("--bfloat16", action="store_true", help="mixed precision")
    group.add_argument("--compile", dest="compiled", action="store_true", help="compile the step with torch.compile")
    group.add_argument("--sync-batch-norm", action="store_true", help="batch norm over all processes (accelerators)")
    group.add_argument(
        "--deterministic", action="store_true", help="the same bits from every run on an accelerator too"
    )
    group.add_argument(
        "--checkpoint-minutes",
        type=float,
        default=3.0,
        metavar="X",
        help="longest time between checkpoints (default: 3)",
    )
    group.add_argument("--no-tensorboard", dest="tensorboard", action="store_false", help="write no TensorBoard events")
    group.add_argument(
        "--watch", action="append", default=[], metavar="GLOB", help="record the state of these layers (repeatable)"
    )


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "train",
        help="train a network by a recipe",
        usage="signwise train RECIPE [--bits 1|32] [--epochs N] [--out FOLDER] [--resume] [other settings]",
        description="Train a network by a recipe of the paper. Everything is recorded in the run's folder.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", metavar="RECIPE", help="network and data set, as shown by signwise list")
    parser.add_argument("--bits", type=int, choices=(1, 32), help="binary weights, or full precision (default: 1)")
    _add_recipe_flags(parser)
    _add_option_flags(parser)
    parser.set_defaults(run=run)


def _overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    names = [entry.name for entry in dataclasses.fields(Recipe) if entry.name not in _NOT_FLAGS]
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def default_folder(recipe: Recipe) -> Path:
    """Where a run goes if nothing is said: by its name, bits and seed, as far as they are not the usual ones."""
    bits = "" if recipe.bits == 1 else f"-{recipe.bits}bit"
    seed = "" if recipe.seed == 0 else f"-seed{recipe.seed}"
    return Path("runs") / f"{recipe.name}{bits}{seed}"


def _recorded_recipe(folder: Path, config: dict[str, Any], asked: dict[str, Any]) -> Recipe:
    """The recipe of the run that is resumed; what is said on the command line must agree with it."""
    recorded = Recipe.from_json(config["recipe"])
    for name, value in asked.items():
        begun = getattr(recorded, name)
        if begun != value:
            raise SignwiseError(
                f"the run in {folder} was begun with {name} {begun}, not {value}: "
                "resume it as it was begun, or choose another folder with --out"
            )
    return recorded


def run(arguments: argparse.Namespace) -> int:
    """Train; the exit code is 0, or 128 + the number of the signal that stopped the run."""
    overrides = _overrides(arguments)
    recipe = named_recipe(arguments.recipe, arguments.bits or 1).changed(**overrides)
    out = arguments.out or default_folder(recipe)
    data, watch = arguments.data, tuple(arguments.watch)
    if arguments.resume and (out / "config.json").exists():
        from signwise.training.run_folder import read_config, recorded_data

        config = read_config(out)
        given = {} if arguments.bits is None else {"bits": arguments.bits}
        recipe = _recorded_recipe(out, config, {"name": recipe.name} | given | overrides)
        data = data or recorded_data(config)
        watch = watch or tuple(config["options"]["watch"])
    options = Options(
        out=out,
        data=data,
        resume=arguments.resume,
        device=arguments.device,
        threads=arguments.threads,
        bfloat16=arguments.bfloat16,
        compiled=arguments.compiled,
        sync_batch_norm=arguments.sync_batch_norm,
        deterministic=arguments.deterministic,
        checkpoint_minutes=arguments.checkpoint_minutes,
        tensorboard=arguments.tensorboard,
        watch=watch,
    )
    from signwise.training.run import train

    outcome = train(recipe, options)
    progress = outcome.progress
    if outcome.signal is not None:
        if outcome.is_main:
            again = f"signwise train {recipe.name} --out {out} --resume"
            print(f"stopped after step {progress.step}; go on with: {again}", file=sys.stderr)
        return 128 + outcome.signal
    if outcome.is_main:
        print(
            f"done: error {progress.last_error:.2f} %, best {progress.best_error:.2f} % at epoch "
            f"{progress.best_epoch}; everything is in {out}"
        )
    return 0
