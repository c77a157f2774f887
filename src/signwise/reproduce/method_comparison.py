"""Every method, briefly: on LeNet5 with one optimizer for all and with its authors' settings, and on ResNet-20.

No single optimizer is fair to all methods: how far a step of SGD turns the latents differs between them by a factor of
a thousand. Adam ignores the size of the gradient, so it is the common optimizer; the authors' settings are the second
column. More runs vary T_α and ζ. ResNet-20 takes too long to train from scratch with every method: there all runs
binarize the same float network, which is kept beside the records, and a seed is an order of the images with their
augmentation. There is one record per seed,
``methods-SEED.json``, which grows run by run, so that an interrupted comparison continues where it was.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signwise import provenance
from signwise.atomic import atomic_write
from signwise.errors import FormatError
from signwise.reproduce.experiments import differences, run_name
from signwise.training.checkpoint import Progress, read_tensors
from signwise.training.loop import EpochRecord, Event, Reporter
from signwise.training.recipe import METHODS, Options, Recipe
from signwise.training.recipes import get_recipe
from signwise.training.run import Outcome, train

EPOCHS, IMAGES, SEEDS = 2, 20_000, 3
RESNET_EPOCHS, START_EPOCHS = 1, 20  # of each method, and of the float ResNet-20 before
COMMON, AUTHORS, ALPHA, RESNET, RESNET_ALPHA = "common", "authors", "alpha", "resnet20", "resnet20 alpha"
RESNET_ZETA = "resnet20 zeta"
FULL_PRECISION = "32 bit"

_T_ALPHAS = (0.0, 0.3, 0.5, 0.7, 0.9)
_ZETAS = (1.0, 2.0, 4.0)
_ADAM: dict[str, Any] = {
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
    "warmup_epochs": 0.0,
    "decay": "linear",
}
# Targets at ±mean start further from binary: α is done at half time, and ζ rises over the last 60 %.
_MEAN_SCHEDULE: dict[str, Any] = {"t_alpha": 0.5, "zeta_end": 6.0, "zeta_ramp": 0.6}


def _sgd(decay: float, *milestones: float) -> dict[str, Any]:
    """SGD at 0.1 with milestones of 0.1, or half a cosine without any.

    The published decays are coupled: with momentum they remove decay · rate / (1 - momentum) per step, here ``decay``.
    """
    curve = {"decay": "steps", "decay_factor": 0.1, "decay_at": milestones} if milestones else {"decay": "cosine"}
    return {"learning_rate": 0.1, "weight_decay": decay, "initialization": "method"} | curve


def _adam(rate: float, *milestones: float, decay: float = 0.0) -> dict[str, Any]:
    """Adam with milestones of 0.1, or at a constant rate without any."""
    curve = {"decay": "steps", "decay_factor": 0.1, "decay_at": milestones}
    return _ADAM | curve | {"learning_rate": rate, "weight_decay": decay, "initialization": "method"}


# As far as they are published and a short run from scratch can follow them: milestones are fractions of the run, the
# batch is 100 for all, and ProxQuant does not start from a trained network. DSQ and Self-Binarizing have no published
# settings that could be checked, and the straight-through sign has those of the common column.
_OF_AUTHORS: dict[str, dict[str, Any]] = {
    "group_transform": {},
    "group_transform_mean": _MEAN_SCHEDULE | {"learning_rate": 0.05, "weight_decay": 1e-4, "decay": "linear"},
    "binary_connect": _adam(1e-3) | {"decay": "cosine"},
    "bwn": _adam(1e-2, 0.375, 0.625, 0.75, 0.875, decay=1e-5),
    "lab": _adam(1e-2, 0.3, 0.5),
    "ir_net": _sgd(1e-4),
    "prox_quant": _adam(1e-2),
    "sq_bwn": _sgd(1e-4, 0.5, 0.75),
    "mpt": _sgd(5e-4),
    "scaled_sign": _sgd(5e-4),
    "mean_sign": _sgd(1e-4, 0.5, 0.75, 0.9),
    "parq": _sgd(2e-4, 0.4, 0.6, 0.75),
    "binary_relax": _sgd(2e-4, 0.4, 0.6, 0.75),
    "reste": _sgd(1e-4),
    "bop": _adam(1e-2),
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row of a comparison.

    Args:
        group: :data:`COMMON`, :data:`AUTHORS`, :data:`ALPHA`, :data:`RESNET`, :data:`RESNET_ALPHA` or
            :data:`RESNET_ZETA`.
        label: the method, T_α, or ζ at the start.
        recipe: what to train, with seed 0.
        start: the float network that all seeds start from; ``None`` to start from scratch.
    """

    group: str
    label: str
    recipe: Recipe
    start: Recipe | None = None


def entries(epochs: int = EPOCHS, images: int = IMAGES) -> tuple[Entry, ...]:
    """All runs of one seed, the common setting first.

    Args:
        epochs: passes over the training images.
        images: training images; all test images are used.
    """
    budget = {"epochs": epochs, "train_samples": images, "test_samples": None}
    binary = get_recipe("lenet5-mnist").changed(**budget)
    full = get_recipe("lenet5-mnist", bits=32).changed(**budget | _ADAM)
    found = [Entry(group=COMMON, label=FULL_PRECISION, recipe=full)]
    for method in METHODS:
        schedule = _MEAN_SCHEDULE if method == "group_transform_mean" else {}
        recipe = binary.changed(method=method, **_ADAM | schedule)
        found.append(Entry(group=COMMON, label=method, recipe=recipe))
    found += [
        Entry(group=AUTHORS, label=method, recipe=binary.changed(method=method, **settings))
        for method, settings in _OF_AUTHORS.items()
    ]
    # At five times the paper's rate, because in so few steps its own hardly moves the latents.
    found += [
        Entry(group=ALPHA, label=f"{t_alpha:g}", recipe=binary.changed(t_alpha=t_alpha, learning_rate=0.05))
        for t_alpha in _T_ALPHAS
    ]
    return tuple(found)


def resnet_entries(
    epochs: int = RESNET_EPOCHS, start_epochs: int = START_EPOCHS, images: int | None = None
) -> tuple[Entry, ...]:
    """The runs of one seed that binarize one float ResNet-20, and train it on with 32 bits.

    Each method has a run; others vary T_α, and with α = 1 throughout the ζ that the steps begin with.

    Args:
        epochs: passes over the training images with each method.
        start_epochs: passes of the float network before that.
        images: training images, ``None`` for all; all test images are used.
    """
    limits = {"train_samples": images, "test_samples": None}
    full = get_recipe("resnet20_fast-cifar10", bits=32).changed(**limits)
    start = full.changed(epochs=start_epochs, warmup_epochs=min(full.warmup_epochs, start_epochs))
    budget = _ADAM | {"epochs": epochs}
    binary = get_recipe("resnet20_fast-cifar10").changed(**limits, **budget, t_alpha=0.5)
    found = [(RESNET, FULL_PRECISION, full.changed(**budget))]
    for method in METHODS:
        schedule = _MEAN_SCHEDULE if method == "group_transform_mean" else {}
        found.append((RESNET, method, binary.changed(method=method, **schedule)))
    by_mean = binary.changed(method="group_transform_mean", **_MEAN_SCHEDULE)
    found += [(RESNET_ALPHA, f"{t_alpha:g}", by_mean.changed(t_alpha=t_alpha)) for t_alpha in _T_ALPHAS]
    found += [(RESNET_ZETA, f"{zeta:g}", by_mean.changed(t_alpha=0.0, zeta_start=zeta)) for zeta in _ZETAS]
    return tuple(Entry(group=group, label=label, recipe=recipe, start=start) for group, label, recipe in found)


def record_path(records: Path, seed: int) -> Path:
    """The record of a seed."""
    return records / f"methods-{seed}.json"


def missing(records: Path, wanted: Sequence[Entry], seed: int) -> list[Entry]:
    """The runs of a seed that have no record yet, each once: T_α = 0.5 is also a method's own setting."""
    done = {_identity(run) for run in _read(record_path(records, seed))}
    found = {_identity_of(entry, seed): entry for entry in reversed(wanted)}
    return [entry for entry in wanted if (key := _identity_of(entry, seed)) not in done and found[key] is entry]


def measure_methods(
    records: Path,
    say: Callable[[str], None],
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    seeds: Iterable[int] = range(SEEDS),
    wanted: Sequence[Entry] | None = None,
    runs: Path = Path("runs"),
) -> None:
    """Train what is missing and record it, run by run.

    Args:
        records: the folder for the records.
        say: called with each result.
        options: device, threads and data of every run.
        seeds: the seeds.
        wanted: the runs, :func:`entries` by default.
        runs: the folder for the float networks that runs start from; they resume after an interruption.
    """
    for seed in seeds:
        for entry in missing(records, wanted or entries(), seed):
            found = _trained(entry, seed, options, records, runs)
            path = record_path(records, seed)
            provenance.write_record(path, {"kind": "methods", "seed": seed, "runs": [*_read(path), found]})
            say(f"{found['name']}: error {found['last_error']:.2f} %")


def _trained(entry: Entry, seed: int, options: Options, records: Path, runs: Path) -> dict[str, Any]:
    recipe, story = entry.recipe.changed(seed=seed), _Story()
    about: dict[str, Any] = {}
    if entry.start is not None:
        network = _float_network(entry.start, options, records, runs)
        about = {"start": run_name(entry.start), "start_error": read_tensors(network).record["error"]}
        recipe = recipe.changed(init_from=str(network))
    progress = _finished(train(recipe, options=options, reporters=[story]))
    return {
        "name": _name(entry, seed),
        **about,
        "settings": differences(entry.recipe),
        "steps": progress.step,
        "best_error": progress.best_error,
        "best_epoch": progress.best_epoch,
        "last_error": progress.last_error,
        "train_losses": [round(row.train_loss, 5) for row in story.epochs],
        "flipped_signs": [row.flipped_signs for row in story.epochs],
        "relative_steps": [row.relative_step for row in story.epochs],
        "origin": {
            "date": provenance.now(),
            "processor": provenance.processor(),
            "torch": provenance.versions()["torch"],
            "revision": provenance.revision(),
        },
    }


def _float_network(start: Recipe, options: Options, records: Path, runs: Path) -> Path:
    """The weights that runs start from; if none are kept beside the records yet, they are trained first."""
    kept = records / f"{run_name(start)}.safetensors"
    if not kept.exists():
        folder = runs / run_name(start)
        _finished(train(start, folder, options=dataclasses.replace(options, resume=True)))
        with atomic_write(kept) as file:
            file.write((folder / "last.safetensors").read_bytes())
    return kept


def _finished(done: Outcome) -> Progress:
    if done.signal is not None:  # half a run is no result; what finished before it is recorded
        raise KeyboardInterrupt
    return done.progress


class _Story(Reporter):
    """Keeps what a run reports about its epochs."""

    def __init__(self) -> None:
        self.epochs: list[EpochRecord] = []

    def report(self, event: Event) -> None:
        if isinstance(event, EpochRecord):
            self.epochs.append(event)


def _name(entry: Entry, seed: int) -> str:
    return run_name(entry.recipe.changed(seed=seed))


def _identity_of(entry: Entry, seed: int) -> tuple[str, str | None]:
    """The run's name and that of its float network: from another network it is another run."""
    return _name(entry, seed), None if entry.start is None else run_name(entry.start)


def _identity(run: dict[str, Any]) -> tuple[str, str | None]:
    return run["name"], run.get("start")


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        runs: list[dict[str, Any]] = document["runs"]
        known = {"last_error": float, "name": str, "origin": dict}
        return [run | {key: kind(run[key]) for key, kind in known.items()} for run in runs]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: not a record of the methods: {error}") from None


def measured(records: Path, wanted: Sequence[Entry] | None = None) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The recorded runs by group and label, one per seed; without the entries that have none."""
    runs = [run for path in sorted(records.glob("methods-*.json")) for run in _read(path)]
    endings = {run["name"].rpartition("-")[2] for run in runs}  # a run's name ends in its seed
    seeds = [int(ending) for ending in endings if ending.isdigit()]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in wanted or (*entries(), *resnet_entries()):
        repeated = {_identity_of(entry, seed) for seed in seeds}
        same = [run for run in runs if _identity(run) in repeated]
        if same:
            found[entry.group, entry.label] = same
    return found
