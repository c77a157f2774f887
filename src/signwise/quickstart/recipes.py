"""The short recipes of the quickstart: settings of its own, so that a few epochs end in a network worth showing.

The paper trains LeNet5 for 200 epochs with a learning rate of 0.01. In a few epochs that is too slow, so the rate is
higher, the warm-up a fraction of an epoch, and α reaches 1 half-way, which leaves the second half to the network that
is deployed. What stays as in the paper: the network, the optimizer, the batch size, the decay of rate and weight decay.
"""

from __future__ import annotations

from typing import Any

from signwise.training.recipe import Recipe
from signwise.training.recipes import recipe

EPOCHS = 4
BITS = (32, 1)
_SHARED: dict[str, Any] = {"name": "quickstart", "epochs": EPOCHS, "warmup_epochs": 0.3}
_OWN: dict[int, dict[str, Any]] = {
    1: {"learning_rate": 0.1, "t_alpha": 0.5},
    32: {"learning_rate": 0.05},
}


def short_recipe(bits: int, **changes: Any) -> Recipe:
    """The recipe of one of the two networks.

    Args:
        bits: 1 or 32.
        changes: settings that replace those of the quickstart, for a still quicker look.

    Example:
        >>> short_recipe(1).epochs, short_recipe(1).t_alpha, short_recipe(32).bits
        (4, 0.5, 32)
    """
    settings = _SHARED | _OWN[bits] | changes
    if "epochs" in changes and "warmup_epochs" not in changes:
        settings["warmup_epochs"] = min(_SHARED["warmup_epochs"], changes["epochs"])
    return recipe("lenet5-mnist", bits).changed(**settings)
