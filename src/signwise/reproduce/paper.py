"""The paper's numbers, each with its table: the only place where they are typed.

Shulman, *Exact Backpropagation in Binary Weighted Networks with Group Weight Transformations*. Tables are numbered in
order of appearance. All numbers are top-1 errors in percent, the lowest during training.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PaperError:
    """An error that the paper reports for its own method or for the full-precision baseline.

    Args:
        recipe: the recipe of the experiment.
        bits: 1 or 32.
        t_alpha: the fraction of the steps over which α rises to 1; ``None`` with 32 bits.
        error: lowest error during training, in percent.
        table: the number of its table.
    """

    recipe: str
    bits: int
    t_alpha: float | None
    error: float
    table: int


@dataclass(frozen=True, kw_only=True)
class ReportedError:
    """An error in the paper's comparison tables.

    Args:
        method: the method; ``None`` for the paper's own.
        network: the architecture, as the paper calls it.
        dataset: ``cifar10`` or ``cifar100``.
        error: error in percent, with the one decimal of the table.
        table: the number of its table.
        recipe: the recipe of the paper's own method, otherwise ``None``.
    """

    method: str | None
    network: str
    dataset: str
    error: float
    table: int
    recipe: str | None = None


RESULTS_TABLE, CIFAR10_TABLE, CIFAR100_TABLE, T_ALPHA_TABLE = 1, 3, 4, 5

# Recipe, T_α with 1 bit (table 2), error with 32 bits, error with 1 bit.
_RESULTS = (
    ("lenet5-mnist", 0.9, 0.64, 0.53),
    ("vgg_small-cifar10", 0.0, 5.88, 6.42),
    ("resnet18-cifar10", 0.9, 5.52, 5.63),
    ("wrn28_10-cifar10", 0.9, 4.51, 4.39),
    ("resnet18-cifar100", 0.9, 23.52, 24.02),
    ("wrn28_10-cifar100", 0.9, 21.34, 20.52),
)

RESULTS: tuple[PaperError, ...] = tuple(
    PaperError(recipe=recipe, bits=bits, t_alpha=t_alpha if bits == 1 else None, error=error, table=RESULTS_TABLE)
    for recipe, t_alpha, full, binary in _RESULTS
    for bits, error in ((32, full), (1, binary))
)
"""Table 1: every experiment with both bit widths."""

T_ALPHAS = (0.0, 0.3, 0.5, 0.7, 0.9)
"""The values of T_α in table 5."""

_T_ALPHA = {
    "vgg_small-cifar10": (6.42, 7.04, 6.94, 7.2, 6.88),
    "resnet18-cifar100": (24.61, 24.78, 24.81, 24.56, 24.02),
    "wrn28_10-cifar100": (20.59, 20.67, 20.96, 20.92, 20.52),
}

T_ALPHA: tuple[PaperError, ...] = tuple(
    PaperError(recipe=recipe, bits=1, t_alpha=t_alpha, error=error, table=T_ALPHA_TABLE)
    for recipe, errors in _T_ALPHA.items()
    for t_alpha, error in zip(T_ALPHAS, errors, strict=True)
)
"""Table 5: the effect of progressive binarization."""


def _reported(
    table: int, dataset: str, rows: tuple[tuple[str | None, str, float, str | None], ...]
) -> list[ReportedError]:
    return [
        ReportedError(method=method, network=network, dataset=dataset, error=error, table=table, recipe=recipe)
        for method, network, error, recipe in rows
    ]


_CIFAR10 = (
    ("LAB", "VGG-Small", 10.5, None),
    ("BWN", "VGG-Small", 9.9, None),
    ("Self-Binarizing Networks", "VGG-Small", 9.4, None),
    ("BWNH", "VGG9", 9.2, None),
    ("MPT-1/32 (95)", "VGG-Small", 8.5, None),
    ("BinaryConnect", "VGG-Small", 8.3, None),
    (None, "VGG-Small", 6.4, "vgg_small-cifar10"),
    ("IR-Net", "ResNet-20", 9.8, None),
    ("ProxQuant", "ResNet-20", 9.3, None),
    ("ProxQuant", "ResNet-44", 7.8, None),
    ("SQ-BWN", "ResNet-56", 7.2, None),
    (None, "ResNet-18", 5.6, "resnet18-cifar10"),
    ("MPT (80) +BN", "ResNet-18", 5.2, None),
    (None, "WRN-28-10", 4.4, "wrn28_10-cifar10"),
)
_CIFAR100 = (
    ("Self-Binarizing Networks", "VGG-Small", 36.5, None),
    ("BWN", "ResNet-56", 35.0, None),
    ("BWNH", "VGG9", 34.4, None),
    ("SQ-BWN", "ResNet-56", 31.6, None),
    (None, "ResNet-18", 24.0, "resnet18-cifar100"),
    (None, "WRN-28-10", 20.5, "wrn28_10-cifar100"),
)

COMPARISON: tuple[ReportedError, ...] = (
    *_reported(CIFAR10_TABLE, "cifar10", _CIFAR10),
    *_reported(CIFAR100_TABLE, "cifar100", _CIFAR100),
)
"""Tables 3 and 4: errors that others report, as quoted by the paper."""


def reported(recipe: str, bits: int, t_alpha: float | None) -> PaperError | None:
    """What the paper reports for an experiment, or ``None``.

    Example:
        >>> reported("lenet5-mnist", 1, 0.9).error
        0.53
    """
    for entry in (*RESULTS, *T_ALPHA):
        if (entry.recipe, entry.bits, entry.t_alpha) == (recipe, bits, t_alpha):
            return entry
    return None
