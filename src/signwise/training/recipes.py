"""The paper's experiments by name: every row of its table of hyperparameters, for both bit widths.

Four networks are not in the paper. ResNet-20 uses the row of ResNet-18 with fewer epochs. The fast VGG has settings of
its own, so that a CPU can train it in about an hour, and ``resnet20_fast`` and ``lenet5_fast`` have such settings for
ResNet-20 and LeNet5. The tiny CNN and ResNet-8 are for microcontrollers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from signwise.errors import SignwiseError
from signwise.text import unknown_name
from signwise.training.recipe import Recipe

_CIFAR_AUGMENTATION = {"flip": True, "translate": 4, "zoom": 0.1}
_DIGITS: dict[str, Any] = {
    "warmup_epochs": 1.5,
    "optimizer": "adam",
    "decay": "cosine",
    "translate": 2,
    "zoom": 0.1,
    "rotate": 12.0,
}

# Milestones are fractions of the steps after the warm-up.
_THIRDS: dict[str, Any] = {"decay_factor": 0.1, "decay_at": (1 / 3, 2 / 3)}
_SIX_STEPS: dict[str, Any] = {"decay_factor": 0.3, "decay_at": (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)}
# Epochs 60, 120 and 160 of 200, of which 5 are warm-up, as the authors of wide residual networks recommend.
_WIDE_RESIDUAL: dict[str, Any] = {"decay_factor": 0.2, "decay_at": tuple((epoch - 5) / 195 for epoch in (60, 120, 160))}


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A row of the table: the settings that both bit widths share, and the settings of each."""

    shared: dict[str, Any]
    full: dict[str, Any]
    binary: dict[str, Any]


def _row(model: str, dataset: str, batch_size: int, *, full: dict[str, Any], binary: dict[str, Any]) -> _Row:
    augmentation = {} if dataset == "mnist" else _CIFAR_AUGMENTATION
    shared = {"name": f"{model}-{dataset}", "model": model, "dataset": dataset, "batch_size": batch_size}
    return _Row(shared=shared | augmentation, full=_THIRDS | {"t_alpha": None} | full, binary=_SIX_STEPS | binary)


def _settings(epochs: int, learning_rate: float, weight_decay: float, **more: Any) -> dict[str, Any]:
    return {"epochs": epochs, "learning_rate": learning_rate, "weight_decay": weight_decay} | more


_ROWS = (
    _row(
        "lenet5",
        "mnist",
        100,
        full=_settings(200, 0.01, 1e-4, skip="last"),
        binary=_settings(200, 0.01, 1e-3, t_alpha=0.9, skip="last"),
    ),
    _row(
        "vgg_small",
        "cifar10",
        128,
        full=_settings(300, 0.1, 5e-4),
        binary=_settings(300, 0.05, 1e-3, t_alpha=0.0),
    ),
    _row(
        "resnet18",
        "cifar10",
        128,
        full=_settings(300, 0.1, 5e-4),
        binary=_settings(400, 0.05, 1e-3, t_alpha=0.9),
    ),
    _row(
        "resnet18",
        "cifar100",
        128,
        full=_settings(300, 0.1, 5e-4),
        binary=_settings(400, 0.05, 1e-3, t_alpha=0.9),
    ),
    _row(
        "wrn28_10",
        "cifar10",
        128,
        full=_settings(200, 0.1, 5e-4, **_WIDE_RESIDUAL),
        binary=_settings(400, 0.05, 1e-3, t_alpha=0.9),
    ),
    _row(
        "wrn28_10",
        "cifar100",
        128,
        full=_settings(300, 0.1, 5e-4),
        binary=_settings(400, 0.05, 1e-3, t_alpha=0.9),
    ),
    _row(
        "resnet20",
        "cifar10",
        128,
        full=_settings(200, 0.1, 5e-4),
        binary=_settings(200, 0.05, 1e-3, t_alpha=0.9),
    ),
)


def _fast(name: str, model: str, dataset: str, *, epochs: int, weight_decay: float, **more: Any) -> _Row:
    """Settings for a CPU, which has no time for the paper's slow start.

    With mean|φ| · sign(φ) a step moves the latents as far as it moves a float network, and signs may flip until the
    learning rate is 0. For the VGG, 5,000 training images held out chose it over the paper's transform with targets at
    ±mean|φ|, whose signs rest early in so short a run.
    """
    shared: dict[str, Any] = {"name": f"{name}-{dataset}", "model": model, "dataset": dataset, "batch_size": 128}
    curve = {"decay": "linear", "decay_factor": 1.0, "decay_at": (), "nesterov": True}
    return _Row(
        shared=shared | curve | _settings(epochs, 0.1, weight_decay, flip=True, **more),
        full={"t_alpha": None},
        binary={"method": "mean_sign", "t_alpha": 0.0},
    )


# Shifts as in the published trainings of this network, and five times their decay: with fewer epochs the weights have
# less time to forget where they started.
_RESNET20: dict[str, Any] = {"weight_decay": 5e-4, "warmup_epochs": 2 / 3, "translate": 4}

_FAST = (
    _fast(
        "vgg_fast",
        "vgg_fast",
        "cifar10",
        epochs=20,
        weight_decay=5e-4,
        label_smoothing=0.1,
        warmup_epochs=1.0,
        translate=2,
    ),
    _fast("resnet20_fast", "resnet20", "cifar10", epochs=60, **_RESNET20),
    _fast("resnet20_fast", "resnet20", "cifar100", epochs=20, **_RESNET20),
    _fast("resnet8", "resnet8", "cifar10", epochs=30, weight_decay=5e-5, warmup_epochs=1.0, translate=2),
)


def _digits(name: str, model: str, *, epochs: int, **more: Any) -> _Row:
    """Settings for digits, chosen for the tiny CNN on 5,000 training images that were kept out of training."""
    shared: dict[str, Any] = {"name": f"{name}-mnist", "model": model, "dataset": "mnist", "batch_size": 100}
    return _Row(
        shared=shared | _settings(epochs, 0.003, 1e-4, **_DIGITS, **more),
        full=_THIRDS | {"t_alpha": None},
        binary=_SIX_STEPS | {"method": "mean_sign", "t_alpha": 0.0},
    )


_DIGIT_ROWS = (
    _digits("tiny_cnn", "tiny_cnn", epochs=15),
    _digits("lenet5_fast", "lenet5", epochs=20, skip="last"),
)

_ALL = (*_ROWS, *_FAST, *_DIGIT_ROWS)

PAPER_RECIPES: tuple[str, ...] = tuple(row.shared["name"] for row in _ROWS)
"""The recipes with the paper's schedule."""

RECIPES: tuple[str, ...] = tuple(row.shared["name"] for row in _ALL)


def get_recipe(name: str, bits: int = 1) -> Recipe:
    """The recipe with this name and bit width.

    Args:
        name: model and data set, as in ``lenet5-mnist``; see :data:`RECIPES`.
        bits: 1 for binary weights, 32 for the full-precision baseline.

    Returns:
        The recipe, to use as it is or :meth:`~signwise.training.recipe.Recipe.changed`.

    Example:
        >>> get_recipe("vgg_small-cifar10").learning_rate, get_recipe("vgg_small-cifar10", bits=32).learning_rate
        (0.05, 0.1)
    """
    for row in _ALL:
        if row.shared["name"] == name:
            return Recipe(bits=bits, **row.shared, **(row.full if bits == 32 else row.binary))
    raise SignwiseError(f"{unknown_name('recipe', name, RECIPES)} (signwise list shows them all)")


def own_recipe(model: str, name: str, bits: int = 1) -> Recipe:
    """A recipe for a model and images of your own: settings that suit most, to change as you like.

    Args:
        model: a name in ``signwise.models``, or ``package.module:function``.
        name: the name of the run.
        bits: 1 for binary weights, 32 for full precision.

    Example:
        >>> own_recipe("lenet5", "letters").epochs
        30
    """
    decay: dict[str, Any] = {"decay": "cosine", "decay_factor": 1.0, "decay_at": (), "warmup_epochs": 1.0}
    binary = _settings(30, 0.05, 1e-3, t_alpha=0.5)
    full = _settings(30, 0.05, 5e-4, t_alpha=None)
    shared: dict[str, Any] = {"name": name, "model": model, "dataset": "own", "batch_size": 64}
    return Recipe(bits=bits, **shared, **decay, **(full if bits == 32 else binary))
