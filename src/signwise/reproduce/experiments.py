"""Which runs each table and figure is made of, in full or within the budget of a CPU."""

from __future__ import annotations

import dataclasses

from signwise.reproduce import paper
from signwise.training.recipe import METHODS, Recipe
from signwise.training.recipes import recipe as named_recipe

TARGETS = ("table1", "alpha", "comparison", "state-figure", "accuracy-figure")
BUDGETS = ("full", "cpu")

_SHORT_EPOCHS = 10
# A few hundred real steps of a network that a CPU cannot train to the end: its loss falls, and a step's time is known.
# Smaller batches than the paper's 128, for time and memory; the learning rate is smaller in proportion.
_TRIAL_BATCHES = {"vgg_small-cifar10": 16, "resnet18-cifar10": 16, "wrn28_10-cifar10": 8}
_TRIAL_EPOCHS, _TRIAL_STEPS_PER_EPOCH, _TRIAL_TEST_IMAGES = 10, 30, 200


def trial(name: str) -> Recipe:
    """A recipe's 1-bit network for 300 steps on a part of the data, with the whole schedule in them.

    Example:
        >>> trial("resnet18-cifar10").train_samples
        480
    """
    base, batch = named_recipe(name), _TRIAL_BATCHES[name]
    return base.changed(
        epochs=_TRIAL_EPOCHS,
        batch_size=batch,
        learning_rate=base.learning_rate * batch / base.batch_size,
        train_samples=batch * _TRIAL_STEPS_PER_EPOCH,
        test_samples=_TRIAL_TEST_IMAGES,
    )


def _short(bits: int, t_alpha: float | None) -> Recipe:
    return named_recipe("resnet20-cifar10", bits).changed(epochs=_SHORT_EPOCHS, t_alpha=t_alpha)


def _by_other_methods(recipe: Recipe) -> list[Recipe]:
    """The same run by the other weight binarizers that are here, for a comparison at equal settings."""
    return [recipe.changed(method=method) for method in METHODS if method != recipe.method]


def _of_paper(entries: tuple[paper.PaperError, ...]) -> list[Recipe]:
    return [named_recipe(entry.recipe, entry.bits).changed(t_alpha=entry.t_alpha) for entry in entries]


def _full() -> dict[str, list[Recipe]]:
    compared = [named_recipe(entry.recipe) for entry in paper.COMPARISON if entry.recipe is not None]
    curves = ("vgg_small-cifar10", "wrn28_10-cifar100")
    return {
        "table1": _of_paper(paper.RESULTS),
        "alpha": _of_paper(paper.T_ALPHA),
        "comparison": [
            *compared,
            named_recipe("resnet20-cifar10"),
            *_by_other_methods(named_recipe("resnet20-cifar10")),
        ],
        "state-figure": [named_recipe("lenet5-mnist")],
        "accuracy-figure": _of_paper(tuple(entry for entry in paper.T_ALPHA if entry.recipe in curves)),
    }


def _cpu() -> dict[str, list[Recipe]]:
    digits = [named_recipe("lenet5-mnist", bits) for bits in (1, 32)]
    short = [_short(32, None), _short(1, 0.0), _short(1, 0.9)]
    return {
        "table1": [*digits, *(trial(name) for name in _TRIAL_BATCHES)],
        "alpha": short,
        "comparison": [_short(1, 0.9), *_by_other_methods(_short(1, 0.9))],
        "state-figure": [named_recipe("lenet5-mnist")],
        "accuracy-figure": [*digits, *short],
    }


def experiments(target: str, budget: str, seeds: int = 1) -> list[Recipe]:
    """The runs that a target needs, each once, in the order in which they are worth having.

    Args:
        target: one of :data:`TARGETS`, or ``all``.
        budget: ``full`` for the paper's experiments, ``cpu`` for what a CPU can do in hours.
        seeds: how many seeds of each; those of the first come before those of the second.

    Returns:
        The recipes.
    """
    table = _full() if budget == "full" else _cpu()
    wanted = [recipe for name in (TARGETS if target == "all" else (target,)) for recipe in table[name]]
    unique = list(dict.fromkeys(wanted))
    return [dataclasses.replace(recipe, seed=seed) for seed in range(seeds) for recipe in unique]
