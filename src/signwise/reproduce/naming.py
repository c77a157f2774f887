"""What a run is called, by what it changes of its recipe; needed where runs and records lie in one folder."""

from __future__ import annotations

import dataclasses

from signwise.training.recipe import Recipe
from signwise.training.recipes import NAMES
from signwise.training.recipes import recipe as named_recipe

# Follow from other settings wherever signwise itself changes a recipe.
_IMPLIED = ("warmup_epochs", "test_samples")


def differences(recipe: Recipe) -> dict[str, object]:
    """The settings in which a recipe differs from the one of its name and bits, its seed aside.

    Example:
        >>> differences(named_recipe("lenet5-mnist").changed(t_alpha=0.5, seed=3))
        {'t_alpha': 0.5}
    """
    if recipe.name not in NAMES:
        return {}
    base = named_recipe(recipe.name, recipe.bits)
    names = [entry.name for entry in dataclasses.fields(recipe) if entry.name != "seed"]
    return {name: getattr(recipe, name) for name in names if getattr(recipe, name) != getattr(base, name)}


def run_name(recipe: Recipe) -> str:
    """The name of a recipe's run: recipe, bits, what is changed, seed.

    Example:
        >>> run_name(named_recipe("lenet5-mnist"))
        'lenet5-mnist-1bit-0'
        >>> run_name(named_recipe("resnet20-cifar10").changed(t_alpha=0.0, epochs=10, seed=2))
        'resnet20-cifar10-1bit-epochs10-talpha0-2'
    """
    changed = {name: value for name, value in differences(recipe).items() if name not in _IMPLIED}
    parts = [f"{name.replace('_', '')}{_text(value)}" for name, value in changed.items()]
    return "-".join([recipe.name, f"{recipe.bits}bit", *parts, str(recipe.seed)])


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "_".join(_text(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def is_full(recipe: Recipe) -> bool:
    """Whether it is the whole experiment, as its table has it: nothing but the seed and T_α may differ.

    Example:
        >>> lenet5 = named_recipe("lenet5-mnist")
        >>> is_full(lenet5.changed(seed=1)), is_full(lenet5.changed(epochs=3))
        (True, False)
    """
    return recipe.name in NAMES and not set(differences(recipe)) - {"t_alpha"}
