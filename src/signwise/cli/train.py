"""``signwise train``: train a recipe in a folder, and resume it after an interruption."""

from __future__ import annotations

import argparse
import dataclasses
import re
import shlex
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError
from signwise.invocation import command
from signwise.training.recipe import DECAYS, INITIALIZATIONS, LOGGERS, METHODS, OPTIMIZERS, SKIPS, Options, Recipe
from signwise.training.recipes import get_recipe, own_recipe

_EXAMPLES = """examples:
  signwise train lenet5-mnist --epochs 5             a first look: a few minutes on a CPU
  signwise train lenet5-mnist --bits 32              the full-precision baseline of the paper's experiment
  signwise train resnet18-cifar10 --data ~/cifar     with files that you already have
  signwise train --data photos --model my_models:small_net --image-size 64      your own images and model
  signwise train lenet5-mnist --init-from runs/lenet5-mnist-32bit --distill
  signwise train lenet5-mnist --resume               continue after a crash, a kill or Ctrl-C
  torchrun --nproc-per-node 8 --max-restarts 3 -m signwise train resnet18-cifar10 --resume
"""

# One sentence for each setting of a recipe that has a flag; --bits and the recipe's name are added by hand.
_HELP = {
    "model": "model, by its name in signwise.models, or package.module:function for your own",
    "dataset": "data set, by its name in signwise.datasets, or own",
    "epochs": "passes over the training images",
    "batch_size": "images per step, over all processes together",
    "learning_rate": "learning rate after the warm-up",
    "weight_decay": "weight decay, decoupled: not multiplied by the learning rate",
    "optimizer": f"optimizer: {', '.join(OPTIMIZERS)}",
    "momentum": "momentum of SGD",
    "nesterov": "Nesterov's form of momentum",
    "label_smoothing": "share of the target probability that is spread over all classes",
    "warmup_epochs": "epochs over which the learning rate rises from 0",
    "decay": f"how learning rate and weight decay fall: {', '.join(DECAYS)}",
    "decay_factor": "factor on learning rate and weight decay at each milestone",
    "decay_at": "milestones, as fractions of the steps after the warm-up",
    "t_alpha": "fraction of the steps over which alpha rises to 1 (1 bit only; at most 0.5 below 20 epochs)",
    "zeta_start": "zeta before its ramp",
    "zeta_end": "zeta at the last step",
    "zeta_ramp": "last fraction of the steps, over which zeta rises",
    "method": f"binarization method: {', '.join(METHODS)}",
    "initialization": f"initial weights: {', '.join(INITIALIZATIONS)}",
    "batch_norm_momentum": "weight of the newest batch in the statistics of batch norm",
    "batch_norm_epsilon": "what batch norm adds to the variance",
    "skip": f"layers that stay float: {', '.join(SKIPS)}, or name globs such as conv1,fc*",
    "flip": "mirror each training image with probability 1/2",
    "translate": "shift training images by up to this many pixels",
    "zoom": "zoom training images by up to this fraction",
    "rotate": "rotate training images by up to this many degrees",
    "reestimate_batch_norm": "training images to re-estimate batch norm on before each evaluation",
    "seed": "seed of initialization, order and augmentation",
    "train_samples": "train on the first N images only, for a quick look",
    "test_samples": "test on the first N images only (default: N of --train-samples)",
    "image_size": "scale and crop your own images to squares of this many pixels",
    "test_fraction": "share of your own images to hold out for testing, if there is no test set",
    "init_from": "start from a trained network: a run's folder, a .safetensors file or a .pt state dict",
    "distill": "let the float network of --init-from teach, too",
    "distill_temperature": "how much the teacher's outputs are softened",
    "distill_weight": "share of the teacher in the loss",
    "validation_samples": "keep N training images out of training, and test on them instead of the test set",
}
_FEW_EPOCHS, _SHORT_T_ALPHA = 20, 0.5

_OTHER_FLAGS = {"learning_rate": "--lr", "compiled": "--compile"}


def flag_of(setting: str) -> str:
    """The flag of a setting of ``Recipe`` or ``Options``, or of ``out``.

    Example:
        >>> flag_of("batch_size"), flag_of("learning_rate")
        ('--batch-size', '--lr')
    """
    return _OTHER_FLAGS.get(setting, "--" + setting.replace("_", "-"))


def _fractions(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(",") if part.strip())


_fractions.__name__ = "list of fractions such as 0.3,0.6"


def _parser_of(annotation: Any) -> tuple[Callable[[str], Any], str]:
    """What reads a setting of this type from the command line, and its placeholder in the help."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (annotation,) = (member for member in typing.get_args(annotation) if member is not type(None))
    if typing.get_origin(annotation) is tuple:
        return _fractions, "X,Y"
    placeholders: dict[Any, str] = {int: "N", float: "X", str: "NAME"}
    return annotation, placeholders[annotation]


def _add_recipe_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the recipe's settings", "Each replaces the value of the recipe.")
    annotations = typing.get_type_hints(Recipe)
    for name, help_text in _HELP.items():
        if annotations[name] is bool:
            group.add_argument(flag_of(name), dest=name, action=argparse.BooleanOptionalAction, help=help_text)
        else:
            read, metavar = _parser_of(annotations[name])
            group.add_argument(flag_of(name), dest=name, type=read, metavar=metavar, help=help_text)


def _add_option_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("device, folders and records")
    group.add_argument("--out", type=Path, metavar="FOLDER", help="the run's folder (default: runs/RECIPE)")
    group.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help="folder with the data set (default: the cache), or your own images: a folder by class, or .npz",
    )
    group.add_argument("--resume", action="store_true", help="continue from the folder's checkpoint, or start if none")
    group.add_argument(
        "--device", default="auto", help="cpu, cuda, cuda:1 ... (default: an accelerator if there is one)"
    )
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads per process (1 for a tiny network)")
    # None unless given: a resumed run then keeps the setting that it was begun with.
    switch = argparse.BooleanOptionalAction
    group.add_argument("--bfloat16", action=switch, help="mixed precision")
    group.add_argument("--compile", dest="compiled", action=switch, help="compile the step with torch.compile")
    group.add_argument("--sync-batch-norm", action=switch, help="batch norm over all processes (accelerators)")
    group.add_argument("--deterministic", action=switch, help="bit-identical runs on an accelerator too")
    group.add_argument(
        "--checkpoint-minutes",
        type=float,
        default=3.0,
        metavar="X",
        help="longest time between checkpoints (default: 3)",
    )
    group.add_argument(
        "--relaxed-every",
        type=int,
        default=1,
        metavar="N",
        help="test the relaxed weights every N epochs and after the last (default: 1)",
    )
    group.add_argument("--no-tensorboard", dest="tensorboard", action="store_false", help="write no TensorBoard events")
    group.add_argument(
        "--log-to",
        action="append",
        default=[],
        choices=LOGGERS,
        help="also log to Weights & Biases or MLflow, if installed (repeatable)",
    )
    group.add_argument(
        "--watch", action="append", default=[], metavar="GLOB", help="record the state of these layers (repeatable)"
    )


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "train",
        help="train a model by a recipe",
        usage="signwise train [-h] RECIPE [--bits 1|32] [--epochs N] [--out FOLDER] [--resume] [other settings]",
        description="Train a model by a recipe of the paper. Everything is recorded in the run's folder.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        nargs="?",
        help="model and data set, as shown by signwise list; leave it out for images of your own",
    )
    parser.add_argument("--bits", type=int, choices=(1, 32), help="binary weights, or full precision (default: 1)")
    _add_recipe_flags(parser)
    _add_option_flags(parser)
    parser.set_defaults(run=run)


def default_folder(recipe: Recipe) -> Path:
    """The folder of a run without ``--out``: the recipe's name, with what differs from its usual form."""
    bits = "" if recipe.bits == 1 else f"-{recipe.bits}bit"
    seed = "" if recipe.seed == 0 else f"-seed{recipe.seed}"
    tuned = "" if recipe.init_from is None else "-tuned"
    return Path("runs") / f"{recipe.name}{bits}{tuned}{seed}"


def _recorded_recipe(folder: Path, config: dict[str, Any], asked: dict[str, Any]) -> Recipe:
    """The recipe of the run to resume; the settings on the command line must agree with it."""
    recorded = Recipe.from_json(config["recipe"])
    for name, value in asked.items():
        begun = getattr(recorded, name)
        if begun != value:
            raise SignwiseError(
                f"the run in {folder} was begun with {name} {begun}, not {value}: "
                "resume it with the same settings, or choose another folder with --out"
            )
    return recorded


def _recipe(arguments: argparse.Namespace) -> Recipe:
    """The recipe by its name; without a name, that of the run to resume, or one for images of the user's own."""
    if arguments.recipe is not None:
        return get_recipe(arguments.recipe, arguments.bits or 1)
    if arguments.resume and arguments.out is not None and (arguments.out / "config.json").exists():
        from signwise.training.run_folder import read_config

        return Recipe.from_json(read_config(arguments.out)["recipe"])
    if arguments.data is None or arguments.model is None:
        raise SignwiseError(
            "name a recipe (signwise list shows them), or your own images and model: "
            "signwise train --data FOLDER --model package.module:function"
        )
    function = arguments.model.partition(":")[2] or arguments.model
    return own_recipe(arguments.model, f"{function}-{arguments.data.resolve().stem}", arguments.bits or 1)


def _with_flags(message: str) -> str:
    """The message of a library error with each `setting` replaced by its flag."""
    settings = {entry.name for entry in (*dataclasses.fields(Recipe), *dataclasses.fields(Options))} | {"out"}
    return re.sub(r"`(\w+)`", lambda found: flag_of(found[1]) if found[1] in settings else found[0], message)


def for_a_short_run(recipe: Recipe) -> Recipe:
    """The recipe with α at 1 half-way, if it has few epochs and would otherwise reach 1 later.

    The paper's recipes let α rise for nine tenths of hundreds of epochs. With few epochs that leaves a fraction of an
    epoch to the deployed weights.

    Example:
        >>> for_a_short_run(get_recipe("lenet5-mnist").changed(epochs=5)).t_alpha
        0.5
    """
    if recipe.bits == 32 or recipe.epochs >= _FEW_EPOCHS or (recipe.t_alpha or 0) <= _SHORT_T_ALPHA:
        return recipe
    return recipe.changed(t_alpha=_SHORT_T_ALPHA)


def _tested_on(recipe: Recipe) -> str:
    """Which images the errors are of, unless they are all test images."""
    if recipe.validation_samples:
        return f" on {recipe.validation_samples:,} validation images"
    return "" if recipe.test_samples is None else f" on the first {recipe.test_samples:,} test images"


def run(arguments: argparse.Namespace) -> int:
    """Train; the exit code is 0, or 128 + the number of the signal that stopped the run."""
    overrides = {name: value for name in _HELP if (value := getattr(arguments, name)) is not None}
    recipe = _recipe(arguments)
    if arguments.init_from is not None:
        # Absolute, so that the run resumes from anywhere.
        overrides["init_from"] = str(Path(arguments.init_from).expanduser().resolve())
        recipe = recipe.fine_tuning(overrides["init_from"])
    recipe = recipe.changed(**overrides)
    begun = recipe
    if arguments.t_alpha is None and arguments.init_from is None:
        recipe = for_a_short_run(recipe)
    out = arguments.out or default_folder(recipe)
    fields = {entry.name: getattr(arguments, entry.name) for entry in dataclasses.fields(Options)}
    options = Options(**fields | {"watch": tuple(arguments.watch), "log_to": tuple(arguments.log_to)})
    if recipe.dataset == "own" and options.data is not None:
        options = dataclasses.replace(options, data=options.data.expanduser().resolve())
    if options.resume and (out / "config.json").exists():
        from signwise.training.run_folder import read_config, recorded_data

        config = read_config(out)
        given = {} if arguments.bits is None else {"bits": arguments.bits}
        recipe = _recorded_recipe(out, config, {"name": recipe.name} | given | overrides)
        options = dataclasses.replace(
            options,
            data=options.data or recorded_data(config),
            watch=options.watch or tuple(config["options"]["watch"]),
            log_to=options.log_to or tuple(config["options"].get("log_to", ())),
        )
    from signwise.training.reporters import terminal_or_plain
    from signwise.training.run import train

    if recipe.t_alpha != begun.t_alpha and not options.resume:
        print(f"T_α is {recipe.t_alpha:g}, not {begun.t_alpha:g}: so that few epochs leave time for the ±1 weights")
    try:
        outcome = train(recipe, out, options=options, reporters=[terminal_or_plain()])
    except SignwiseError as error:
        raise type(error)(_with_flags(str(error))) from error
    progress = outcome.progress
    if outcome.signal is not None:
        if outcome.is_main:
            launcher = f"torchrun --nproc-per-node {outcome.processes} -m " if outcome.processes > 1 else ""
            program = "signwise" if outcome.processes > 1 else command()
            name = "" if recipe.dataset == "own" else f"{recipe.name} "
            again = f"{launcher}{program} train {name}--out {shlex.quote(str(out))} --resume"
            print(f"stopped after step {progress.step:,}; resume with: {again}", file=sys.stderr)
        return 128 + outcome.signal
    if outcome.is_main:
        print(
            f"done: error {progress.last_error:.2f} %, best {progress.best_error:.2f} % at epoch "
            f"{progress.best_epoch}{_tested_on(recipe)}; everything is in {out}"
        )
        folder = shlex.quote(str(out))
        print(f"next: {command()} compile {folder}, or {command()} plot {folder}")
    return 0
