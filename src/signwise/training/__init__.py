"""From a recipe to a trained network: what the paper's section on experiments does, by one call.

    recipes -> recipe -> run.train (stepper, loop) -> run folder -> evaluate

The recipes are plain data and need no PyTorch; the rest does, and is imported from its own module.
"""

from __future__ import annotations

from signwise.training.options import Options
from signwise.training.recipe import Recipe
from signwise.training.recipes import NAMES, recipe

__all__ = ["NAMES", "Options", "Recipe", "recipe"]
