"""From a recipe to a trained model: the paper's experiments, in one call.

    from signwise.training import Options, get_recipe, load_run, train
    train(get_recipe("lenet5-mnist").changed(epochs=5), "runs/first")
    model = load_run("runs/first").model

Recipes and options are plain data and need no PyTorch; the other names load it on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from signwise.invocation import install
from signwise.training.recipe import Options, Recipe
from signwise.training.recipes import RECIPES, get_recipe

if TYPE_CHECKING:
    from signwise.training.run import Outcome, train
    from signwise.training.run_folder import Run, load_run

__all__ = ["RECIPES", "Options", "Outcome", "Recipe", "Run", "get_recipe", "load_run", "train"]

_NEED_TORCH = {"Outcome": "run", "train": "run", "Run": "run_folder", "load_run": "run_folder"}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module 'signwise.training' has no attribute {name!r}")
    try:
        home = importlib.import_module(f"signwise.training.{_NEED_TORCH[name]}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"signwise.training.{name} needs PyTorch: {install('torch')}") from error
    return getattr(home, name)
