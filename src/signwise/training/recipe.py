"""What a training run is to learn, and how: one frozen dataclass, free of PyTorch, that checks itself.

A recipe holds all that decides the result (network, data, bits, schedule, seed). How it is carried out (device,
threads, mixed precision, where the files go) is in :mod:`signwise.training.options`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from signwise.errors import SignwiseError

# The names of what is in signwise.methods and of the rules of binarize_; the recipes' table is where names live.
METHODS = ("group_transform", "binary_connect", "scaled_sign", "straight_through")
SKIPS = ("first_and_last", "last", "none")


def _setting(help_text: str, default: Any = dataclasses.MISSING, flag: str | None = None) -> Any:
    """A field with the sentence that the command line shows for it, and its flag where that is not the field's name."""
    return field(default=default, metadata={"help": help_text, "flag": flag})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One row of the table of experiments.

    With T steps in all, W of them warm-up, the learning rate of step t is ``learning_rate`` times
    ``min(1, (t + 1) / W)`` times ``decay_factor`` for each milestone passed; milestones are fractions ``decay_at`` of
    the T - W steps after the warm-up. The weight decay is reduced alike but not warmed up.

    Example:
        >>> recipe = Recipe(name="tiny", model="lenet5", dataset="mnist", bits=32, epochs=10, batch_size=100,
        ...     learning_rate=0.01, weight_decay=1e-4, t_alpha=None, decay_factor=0.1, decay_at=(0.5,))
        >>> recipe.changed(epochs=5).warmup_epochs  # a shorter run has a shorter warm-up
        2.5
    """

    name: str
    model: str = _setting("the network, by its name in signwise.models")
    dataset: str = _setting("the data set, by its name in signwise.datasets")
    bits: int = _setting("1 for binary weights, 32 for the full-precision twin", 1)
    epochs: int = _setting("passes over the training images")
    batch_size: int = _setting("images a step, over all processes together")
    learning_rate: float = _setting("learning rate after the warm-up", flag="--lr")
    weight_decay: float = _setting("weight decay, decoupled: not multiplied by the learning rate")
    momentum: float = _setting("momentum of SGD", 0.9)
    warmup_epochs: float = _setting("epochs in which the learning rate rises from 0", 5.0)
    decay_factor: float = _setting("factor on learning rate and weight decay at each milestone")
    decay_at: tuple[float, ...] = _setting("milestones, as fractions of the steps after the warm-up")
    t_alpha: float | None = _setting("fraction of the steps in which alpha rises to 1 (1-bit only)", 0.9)
    zeta_start: float = _setting("zeta until its ramp", 1.0)
    zeta_end: float = _setting("zeta at the last step", 12.0)
    zeta_ramp: float = _setting("fraction of the steps, at the end, in which zeta rises", 0.1)
    method: str = _setting(f"how weights become binary: {', '.join(METHODS)}", "group_transform")
    skip: str = _setting(f"layers that stay float: {', '.join(SKIPS)}", "first_and_last")
    flip: bool = _setting("mirror half of the training images", False)
    translate: int = _setting("shift training images by up to this many pixels", 0)
    zoom: float = _setting("zoom training images by up to this fraction", 0.0)
    reestimate_batch_norm: int = _setting("training images to re-estimate batch norm on before each evaluation", 0)
    seed: int = _setting("seed of initialization, order and augmentation", 0)
    train_samples: int | None = _setting("train on the first N images only, for a quick look", None)
    test_samples: int | None = _setting("test on the first N images only (default: N of --train-samples)", None)

    def __post_init__(self) -> None:
        self._check("bits", self.bits in (1, 32), "1 or 32")
        for name in ("epochs", "batch_size"):
            self._check(name, getattr(self, name) >= 1, "at least 1")
        for name in ("learning_rate", "decay_factor"):
            self._check(name, 0 < getattr(self, name) < math.inf, "positive")
        for name in ("weight_decay", "momentum", "zoom", "zeta_ramp"):
            self._check(name, 0 <= getattr(self, name) < 1, "in [0, 1)")
        for name in ("translate", "reestimate_batch_norm", "seed"):
            self._check(name, getattr(self, name) >= 0, "0 or more")
        for name in ("train_samples", "test_samples"):
            value = getattr(self, name)
            self._check(name, value is None or value >= 1, "at least 1")
        self._check("warmup_epochs", 0 <= self.warmup_epochs <= self.epochs, f"in [0, {self.epochs}] (epochs)")
        rising = all(low < high for low, high in zip(self.decay_at, self.decay_at[1:], strict=False))
        inside = all(0 <= fraction <= 1 for fraction in self.decay_at)
        self._check("decay_at", rising and inside, "rising fractions in [0, 1]")
        self._check("method", self.method in METHODS, f"one of {', '.join(METHODS)}")
        self._check("skip", self.skip in SKIPS, f"one of {', '.join(SKIPS)}")
        if self.bits == 32:
            self._check("t_alpha", self.t_alpha is None, "left out with 32 bits: nothing is binarized")
        else:
            self._check("t_alpha", self.t_alpha is not None and 0 <= self.t_alpha <= 1, "in [0, 1]")
            self._check("zeta_start", 0 <= self.zeta_start <= self.zeta_end < math.inf, f"in [0, {self.zeta_end}]")

    def _check(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise SignwiseError(f"{name} must be {expected}, got {getattr(self, name)}")

    def changed(self, **overrides: Any) -> Recipe:
        """A copy with other values; a run with fewer epochs shortens its warm-up in proportion, unless given too."""
        unknown = set(overrides) - {entry.name for entry in dataclasses.fields(self)}
        if unknown:
            raise SignwiseError(f"a recipe has no setting {', '.join(sorted(unknown))}")
        epochs = overrides.get("epochs", self.epochs)
        if epochs < self.epochs and "warmup_epochs" not in overrides:
            overrides["warmup_epochs"] = self.warmup_epochs * max(epochs, 0) / self.epochs
        if overrides.get("train_samples") is not None and "test_samples" not in overrides:
            # A quick look should be quick: a wide network tests 10,000 images for longer than it trains on 500.
            overrides["test_samples"] = overrides["train_samples"]
        return dataclasses.replace(self, **overrides)

    def to_json(self) -> dict[str, Any]:
        """The settings as they stand in ``config.json``."""
        return dataclasses.asdict(self) | {"decay_at": list(self.decay_at)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Recipe:
        """Read what :meth:`to_json` wrote; settings that are newer than the record take their defaults."""
        known = {entry.name for entry in dataclasses.fields(cls)}
        settings = {name: value for name, value in record.items() if name in known}
        try:
            return cls(**settings | {"decay_at": tuple(settings["decay_at"])})
        except (KeyError, TypeError) as error:
            raise SignwiseError(f"the recorded recipe is incomplete: {error}") from None
