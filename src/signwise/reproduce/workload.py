"""How much a run trains: steps and images, known from its recipe before any data is loaded."""

from __future__ import annotations

from signwise.training.recipe import Recipe

_TRAIN_IMAGES = {"mnist": 60_000, "fashion_mnist": 60_000, "cifar10": 50_000, "cifar100": 50_000}


def total_steps(recipe: Recipe) -> int:
    """Training steps in all; a batch that would not be full is left to the next epoch.

    Example:
        >>> from signwise.training import recipe
        >>> total_steps(recipe("lenet5-mnist"))
        120000
    """
    count = recipe.train_samples or _TRAIN_IMAGES[recipe.dataset]
    return recipe.epochs * (count // min(recipe.batch_size, count))


def images_trained(recipe: Recipe) -> int:
    """Images that are trained on in all, each counted as often as it is seen."""
    return total_steps(recipe) * recipe.batch_size
