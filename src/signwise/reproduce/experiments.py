"""The paper's experiments: the numbers that it reports, and the runs behind each table and figure.

Shulman, *Exact Backpropagation in Binary Weighted Networks with Group Weight Transformations*. Its numbers are typed
only here. Tables are numbered in order of appearance; all numbers are top-1 errors in percent, the lowest during
training. The runs come in full or within the budget of a CPU, with their recipes, names and cost.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from signwise.training.recipe import METHODS, Recipe
from signwise.training.recipes import RECIPES, get_recipe

TARGETS = ("table1", "alpha", "comparison", "state-figure", "accuracy-figure")
BUDGETS = ("full", "cpu")

_SHORT_EPOCHS = 10
# A few hundred real steps of a network that a CPU cannot train to the end show that its loss falls and how long a step
# takes. The batches are smaller than the paper's 128, for time and memory, and the learning rate in proportion.
_FEW_STEPS_BATCHES = {"vgg_small-cifar10": 16, "resnet18-cifar10": 16, "wrn28_10-cifar10": 8}
_FEW_STEPS_EPOCHS, _FEW_STEPS_PER_EPOCH, _FEW_STEPS_TEST_IMAGES = 10, 30, 200

_TRAIN_IMAGES = {"mnist": 60_000, "fashion_mnist": 60_000, "cifar10": 50_000, "cifar100": 50_000}
# Settings that follow from others wherever signwise itself changes a recipe.
_IMPLIED = ("warmup_epochs", "test_samples")


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


@dataclass(frozen=True)
class PublishedError:
    """An error that others report.

    Args:
        error: in percent.
        about: the number of epochs and the source.
        spread: over their seeds, ``None`` if they give none.
    """

    error: float
    about: str
    spread: float | None = None

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ± {self.spread}"
        return f"{self.error}{spread} ({self.about})"


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

PAPER_RESULTS: tuple[PaperError, ...] = tuple(
    PaperError(recipe=recipe, bits=bits, t_alpha=t_alpha if bits == 1 else None, error=error, table=RESULTS_TABLE)
    for recipe, t_alpha, full, binary in _RESULTS
    for bits, error in ((32, full), (1, binary))
)
"""Table 1: every experiment with both bit widths."""

# The values of T_α in table 5, and the errors with each.
_T_ALPHAS = (0.0, 0.3, 0.5, 0.7, 0.9)
_T_ALPHA = {
    "vgg_small-cifar10": (6.42, 7.04, 6.94, 7.2, 6.88),
    "resnet18-cifar100": (24.61, 24.78, 24.81, 24.56, 24.02),
    "wrn28_10-cifar100": (20.59, 20.67, 20.96, 20.92, 20.52),
}

PAPER_T_ALPHA: tuple[PaperError, ...] = tuple(
    PaperError(recipe=recipe, bits=1, t_alpha=t_alpha, error=error, table=T_ALPHA_TABLE)
    for recipe, errors in _T_ALPHA.items()
    for t_alpha, error in zip(_T_ALPHAS, errors, strict=True)
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

PAPER_COMPARISON: tuple[ReportedError, ...] = (
    *_reported(CIFAR10_TABLE, "cifar10", _CIFAR10),
    *_reported(CIFAR100_TABLE, "cifar100", _CIFAR100),
)
"""Tables 3 and 4: errors that others report, as quoted by the paper."""

PUBLISHED_RESNET20: dict[str, PublishedError] = {
    "bwn": PublishedError(10.1, "100, MetaQuant"),
    "mean_sign": PublishedError(10.2, "100, MetaQuant"),
    "ir_net": PublishedError(9.2, "400, its authors' repository"),
    "prox_quant": PublishedError(9.3, "quoted by the paper"),
    "parq": PublishedError(9.52, "200, PARQ", spread=0.26),
    "binary_relax": PublishedError(10.02, "200, PARQ", spread=0.13),
    "straight_through": PublishedError(10.44, "200, PARQ, with a mean scale", spread=0.18),
    "reste": PublishedError(8.68, "1000, its authors' repository"),
}
"""What others report for ResNet-20 on CIFAR-10 with binary weights and float activations.

MetaQuant starts from a trained float network and uses Adam; its numbers are means of the last ten epochs.
"""


def paper_error(recipe: str, bits: int, t_alpha: float | None) -> PaperError | None:
    """What the paper reports for an experiment, or ``None``.

    Example:
        >>> paper_error("lenet5-mnist", 1, 0.9).error
        0.53
    """
    for entry in (*PAPER_RESULTS, *PAPER_T_ALPHA):
        if (entry.recipe, entry.bits, entry.t_alpha) == (recipe, bits, t_alpha):
            return entry
    return None


def few_steps(name: str) -> Recipe:
    """A recipe's 1-bit network for 300 steps on part of the data, with the whole schedule in them.

    Example:
        >>> few_steps("resnet18-cifar10").train_samples
        480
    """
    base, batch = get_recipe(name), _FEW_STEPS_BATCHES[name]
    return base.changed(
        epochs=_FEW_STEPS_EPOCHS,
        batch_size=batch,
        learning_rate=base.learning_rate * batch / base.batch_size,
        train_samples=batch * _FEW_STEPS_PER_EPOCH,
        test_samples=_FEW_STEPS_TEST_IMAGES,
    )


def _short(bits: int, t_alpha: float | None) -> Recipe:
    return get_recipe("resnet20-cifar10", bits).changed(epochs=_SHORT_EPOCHS, t_alpha=t_alpha)


def _with_other_methods(recipe: Recipe) -> list[Recipe]:
    """The same run with every other binarization method, for a comparison at equal settings."""
    return [recipe.changed(method=method) for method in METHODS if method != recipe.method]


def _of_paper(entries: tuple[PaperError, ...]) -> list[Recipe]:
    return [get_recipe(entry.recipe, entry.bits).changed(t_alpha=entry.t_alpha) for entry in entries]


def _full() -> dict[str, list[Recipe]]:
    compared = [get_recipe(entry.recipe) for entry in PAPER_COMPARISON if entry.recipe is not None]
    resnet20 = get_recipe("resnet20-cifar10")
    curves = ("vgg_small-cifar10", "wrn28_10-cifar100")
    return {
        "table1": _of_paper(PAPER_RESULTS),
        "alpha": _of_paper(PAPER_T_ALPHA),
        "comparison": [*compared, resnet20, *_with_other_methods(resnet20)],
        "state-figure": [get_recipe("lenet5-mnist")],
        "accuracy-figure": _of_paper(tuple(entry for entry in PAPER_T_ALPHA if entry.recipe in curves)),
    }


def _cpu() -> dict[str, list[Recipe]]:
    digits = [get_recipe("lenet5-mnist", bits) for bits in (1, 32)]
    short = [_short(32, None), _short(1, 0.0), _short(1, 0.9)]
    return {
        "table1": [*digits, *(few_steps(name) for name in _FEW_STEPS_BATCHES)],
        "alpha": short,
        "comparison": [_short(1, 0.9)],
        "state-figure": [get_recipe("lenet5-mnist")],
        "accuracy-figure": [*digits, *short],
    }


def experiments(target: str, budget: str, seeds: int = 1) -> list[Recipe]:
    """The runs that a target needs, each once, the most valuable first.

    Args:
        target: one of :data:`TARGETS`, or ``all``.
        budget: ``full`` for the paper's experiments, ``cpu`` for what a CPU can train in hours.
        seeds: seeds per experiment; every experiment's first seed comes before any second one.
    """
    table = _full() if budget == "full" else _cpu()
    wanted = [recipe for name in (TARGETS if target == "all" else (target,)) for recipe in table[name]]
    unique = list(dict.fromkeys(wanted))
    return [dataclasses.replace(recipe, seed=seed) for seed in range(seeds) for recipe in unique]


def differences(recipe: Recipe) -> dict[str, object]:
    """The settings in which a recipe differs from the one with its name and bits, apart from the seed.

    Example:
        >>> differences(get_recipe("lenet5-mnist").changed(t_alpha=0.5, seed=3))
        {'t_alpha': 0.5}
    """
    if recipe.name not in RECIPES:
        return {}
    base = get_recipe(recipe.name, recipe.bits)
    names = [entry.name for entry in dataclasses.fields(recipe) if entry.name != "seed"]
    return {name: getattr(recipe, name) for name in names if getattr(recipe, name) != getattr(base, name)}


def run_name(recipe: Recipe) -> str:
    """The name of a recipe's run: recipe, bits, changed settings, seed.

    Example:
        >>> run_name(get_recipe("lenet5-mnist"))
        'lenet5-mnist-1bit-0'
        >>> run_name(get_recipe("resnet20-cifar10").changed(t_alpha=0.0, epochs=10, seed=2))
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
    """Whether it is the paper's whole experiment: only the seed and T_α may differ.

    Example:
        >>> lenet5 = get_recipe("lenet5-mnist")
        >>> is_full(lenet5.changed(seed=1)), is_full(lenet5.changed(epochs=3))
        (True, False)
    """
    return recipe.name in RECIPES and not set(differences(recipe)) - {"t_alpha"}


def is_fine_tuned(recipe: Recipe) -> bool:
    """Whether a float network becomes binary on all training images.

    Example:
        >>> resnet20 = get_recipe("resnet20_fast-cifar10")
        >>> is_fine_tuned(resnet20), is_fine_tuned(resnet20.changed(init_from="runs/float/last.safetensors"))
        (False, True)
    """
    return recipe.init_from is not None and recipe.bits == 1 and recipe.train_samples is None


def total_steps(recipe: Recipe) -> int:
    """The training steps of a run, known before any data is loaded; a partial last batch is left to the next epoch.

    Example:
        >>> total_steps(get_recipe("lenet5-mnist"))
        120000
    """
    count = recipe.train_samples or _TRAIN_IMAGES[recipe.dataset]
    return recipe.epochs * (count // min(recipe.batch_size, count))


def images_trained(recipe: Recipe) -> int:
    """The images that a run trains on, counted once per visit."""
    return total_steps(recipe) * recipe.batch_size


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU and the assumptions behind the predicted time.

    Args:
        name: the model.
        peak: dense operations per second in ``precision``.
        precision: the type of the matrix products.
        source: where the peak is published.
        utilization: the fraction of the peak that training is assumed to reach.
        reason: the reason for that assumption.
        floor: the least time of a step in seconds, also an assumption.
    """

    name: str
    peak: float
    precision: str
    source: str
    utilization: float
    reason: str
    floor: float


GPU = Gpu(
    name="NVIDIA H100 SXM",
    peak=989.4e12,
    precision="bfloat16",
    source="NVIDIA H100 Tensor Core GPU data sheet: 1,979 TFLOPS with sparsity, half of it dense",
    utilization=0.10,
    reason="images of 32x32 pixels leave a large GPU partly idle, and batch norm and the transform wait for memory",
    floor=0.005,
)


@dataclass(frozen=True, kw_only=True)
class GpuCost:
    """The predicted cost of a run.

    Args:
        steps: training steps.
        operations: operations per step.
        hours: time on the GPU.
    """

    steps: int
    operations: float
    hours: float


def gpu_cost(recipe: Recipe, macs: int, gpu: Gpu = GPU) -> GpuCost:
    """Predict the time of a run on one GPU.

        seconds per step = max(2 * 3 * MACs * batch / (peak * utilization), floor)

    A multiply-add is two operations; the backward pass takes twice the forward pass, hence 3. The floor is the time
    that the CPU needs to launch a step's kernels. Evaluation is small beside training and left out.

    Args:
        recipe: the run.
        macs: multiply-adds of its network per image.
        gpu: the GPU and the assumptions.

    Example:
        >>> gpu_cost(get_recipe("lenet5-mnist"), macs=2_293_000).steps
        120000
    """
    steps = total_steps(recipe)
    operations = 2.0 * 3 * macs * recipe.batch_size
    seconds = max(operations / (gpu.peak * gpu.utilization), gpu.floor)
    return GpuCost(steps=steps, operations=operations, hours=steps * seconds / 3600)
