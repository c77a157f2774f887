"""The tables, from records: the paper's with our numbers beside them, and our own.

A table holds the rows that exist. What the paper reports and no record measures is listed in one sentence,
:func:`not_measured`. Networks, data sets and methods have display names, which figures use too.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from signwise import datasets
from signwise.methods import METHODS
from signwise.reproduce.experiments import (
    GPU,
    PAPER_COMPARISON,
    PAPER_RESULTS,
    PAPER_T_ALPHA,
    RESULTS_TABLE,
    T_ALPHA_TABLE,
    differences,
    gpu_cost,
    is_fine_tuned,
    is_full,
    paper_error,
)
from signwise.reproduce.records import ABSENT, Record, Repeated, by_recipe, difference, short_revision
from signwise.text import counted, duration
from signwise.training.recipe import Recipe

_Key = tuple[str, int, "float | None"]

# Display names, in the order of the tables.
NETWORKS = {
    "lenet5": "LeNet5",
    "vgg_small": "VGG-Small",
    "vgg_fast": "VGG-Fast",
    "resnet8": "ResNet-8",
    "resnet18": "ResNet-18",
    "resnet20": "ResNet-20",
    "wrn28_10": "WRN-28-10",
    "tiny_cnn": "Tiny CNN",
}
_METHODS = {
    "group_transform": "this method",
    "group_transform_mean": "this method, targets at ±mean",
    "binary_connect": "BinaryConnect",
    "bwn": "BWN",
    "lab": "LAB",
    "ir_net": "IR-Net",
    "prox_quant": "ProxQuant",
    "sq_bwn": "SQ-BWN",
    "self_binarizing": "Self-Binarizing",
    "mpt": "MPT (three values)",
    "dsq": "DSQ",
    "scaled_sign": "scaled sign (McDonnell)",
    "straight_through": "straight-through sign",
    "mean_sign": "mean sign (DoReFa, LSBQ)",
    "parq": "PARQ",
    "binary_relax": "BinaryRelax",
    "reste": "ReSTE",
    "bop": "Bop",
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Headings and rows of text, as Markdown and as CSV.

    Args:
        headings: one text per column.
        rows: one text per column each; `ABSENT` where there is nothing.
        words: how many of the first columns hold words; the others hold numbers and are aligned to the right.

    Example:
        >>> print(Table(headings=("Network", "Error"), rows=(("LeNet5", "0.5"),), words=1).markdown())
        | Network | Error |
        |---|---:|
        | LeNet5 | 0.5 |
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headings):
                raise ValueError(f"a row must have {len(self.headings)} columns, got {row}")

    def markdown(self) -> str:
        """The table in Markdown, without a final line break."""
        rule = ["---" if column < self.words else "---:" for column in range(len(self.headings))]
        lines = [self.headings, *self.rows]
        texts = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]
        return "\n".join([texts[0], f"|{'|'.join(rule)}|", *texts[1:]])

    def csv(self) -> str:
        """The table as comma-separated values; absent numbers are empty, emphasis is removed."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        for line in (self.headings, *self.rows):
            writer.writerow(["" if cell == ABSENT else cell.replace("**", "") for cell in line])
        return buffer.getvalue()


def full_results(records: Iterable[Record]) -> dict[_Key, Repeated]:
    """The experiments that were run in full, by recipe, bits and T_α."""
    repeated = by_recipe(record for record in records if is_full(record.recipe))
    return {(recipe.name, recipe.bits, recipe.t_alpha): runs for recipe, runs in repeated.items()}


def network_title(model: str) -> str:
    """A network's display name.

    Example:
        >>> network_title("resnet18"), network_title("my_network")
        ('ResNet-18', 'my_network')
    """
    return NETWORKS.get(model, model)


def dataset_title(dataset: str) -> str:
    """A data set's display name.

    Example:
        >>> dataset_title("cifar10")
        'CIFAR-10'
    """
    return datasets.DATASETS[dataset].title if dataset in datasets.DATASETS else dataset


def method_title(method: str) -> str:
    """A binarization method's display name."""
    return _METHODS.get(method, method)


def experiment_title(model: str, dataset: str) -> str:
    """A network and its data set.

    Example:
        >>> experiment_title("lenet5", "mnist")
        'LeNet5 on MNIST'
    """
    return f"{network_title(model)} on {dataset_title(dataset)}"


def recipe_title(recipe: Recipe) -> str:
    """The network and data set of a recipe."""
    return experiment_title(recipe.model, recipe.dataset)


def name_title(recipe_name: str) -> str:
    """The network and data set of a recipe, by its name.

    Example:
        >>> name_title("resnet18-cifar10")
        'ResNet-18 on CIFAR-10'
    """
    model, dataset = recipe_name.split("-")
    return experiment_title(model, dataset)


def _beside(ours: Repeated, theirs: float) -> tuple[str, str, str, str]:
    """The paper's error, ours, the difference, and our seeds."""
    measured = ours.mean("best_error")
    return (f"{theirs:.2f}", ours.text("best_error"), difference(measured, theirs), str(ours.seeds))


def table1(records: Iterable[Record]) -> Table:
    """Table 1: the measured experiments with 32 bits and 1 bit; the last columns are the gain of 1 bit over 32."""
    found = full_results(records)
    rows = []
    for entry in PAPER_RESULTS:
        ours = found.get((entry.recipe, entry.bits, entry.t_alpha))
        if ours is None:
            continue
        change = (ABSENT, ABSENT)
        if entry.bits == 1:
            baseline = found.get((entry.recipe, 32, None))
            full = next(other.error for other in PAPER_RESULTS if other.recipe == entry.recipe and other.bits == 32)
            gain = None if baseline is None else baseline.mean("best_error") - ours.mean("best_error")
            change = (f"{full - entry.error:+.2f}", ABSENT if gain is None else f"{gain:+.2f}")
        title = recipe_title(ours.recipe)
        rows.append((title, str(entry.bits), *_beside(ours, entry.error), ours.text("last_error"), *change))
    headings = ("Experiment", "Bits", "Paper, %", "Ours, %", "Difference", "Seeds", "Ours, last epoch, %")
    return Table(headings=(*headings, "Gain, paper", "Gain, ours"), rows=tuple(rows), words=1)


def alpha(records: Iterable[Record]) -> Table:
    """Table 5: the effect of progressive binarization, where measured."""
    found = full_results(records)
    rows = []
    for entry in PAPER_T_ALPHA:
        ours = found.get((entry.recipe, 1, entry.t_alpha))
        if ours is not None:
            rows.append((recipe_title(ours.recipe), f"{entry.t_alpha:g}", *_beside(ours, entry.error)))
    return Table(
        headings=("Experiment", "T_α", "Paper, %", "Ours, %", "Difference", "Seeds"), rows=tuple(rows), words=1
    )


def comparison(records: Iterable[Record]) -> Table:
    """Tables 3 and 4: other methods as the paper quotes them, and this one, with our number where there is one."""
    found = full_results(records)
    rows: list[tuple[str, ...]] = []
    for entry in PAPER_COMPARISON:
        method = entry.method or "**this method**"
        own = next((other for other in PAPER_RESULTS if other.recipe == entry.recipe and other.bits == 1), None)
        ours = found.get((own.recipe, 1, own.t_alpha)) if own is not None else None
        measured = ABSENT if ours is None else ours.text("best_error")
        rows.append((dataset_title(entry.dataset), method, entry.network, f"{entry.error:.1f}", measured))
    small = found.get(("resnet20-cifar10", 1, 0.9))
    if small is not None:
        title = (dataset_title("cifar10"), "**this method**", network_title("resnet20"))
        rows.append((*title, ABSENT, small.text("best_error")))
    headings: tuple[str, ...] = ("Data set", "Method", "Network", "Paper, %", "Ours, %")
    if all(row[-1] == ABSENT for row in rows):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    return Table(headings=headings, rows=tuple(rows), words=3)


def _method(recipe: Recipe) -> str:
    return ABSENT if recipe.bits == 32 else method_title(recipe.method)


def _t_alpha(recipe: Recipe) -> str:
    # Methods that do not blend the latent with its sign have no α: whatever their recipe says is not used.
    unused = recipe.t_alpha is None or not METHODS[recipe.method].blends_latent
    return ABSENT if unused else f"{recipe.t_alpha:g}"


def _start(recipe: Recipe) -> str:
    if recipe.init_from is None:
        return "scratch"
    return "float network that also teaches" if recipe.distill else "float network"


def changed_settings(recipe: Recipe) -> list[str]:
    """The settings that differ from the recipe's own and have no column in :func:`short`, with their values.

    Example:
        >>> from signwise.training import get_recipe
        >>> changed_settings(get_recipe("lenet5-mnist").changed(epochs=20, learning_rate=0.05))
        ['learning rate 0.05']
    """
    columns = ("epochs", "warmup_epochs", "method", "t_alpha", "init_from", "distill")
    named = [(name, value) for name, value in differences(recipe).items() if name not in columns]
    return [f"{name.replace('_', ' ')} {value}" for name, value in named]


def short(records: Iterable[Record]) -> Table:
    """Runs on all of the data that are not the paper's experiments: fewer epochs, or another method."""
    chosen = [record for record in records if not is_full(record.recipe) and record.recipe.train_samples is None]
    rows = [
        (
            recipe_title(recipe),
            _method(recipe),
            _start(recipe),
            ", ".join(changed_settings(recipe)) or ABSENT,
            str(recipe.bits),
            _t_alpha(recipe),
            str(recipe.epochs),
            runs.text("best_error"),
            runs.text("last_error"),
            runs.text("last_relaxed_error"),
            str(runs.seeds),
            duration(runs.mean("seconds")),
        )
        for recipe, runs in by_recipe(chosen).items()
    ]
    headings = ("Experiment", "Method", "Start", "Changed settings", "Bits", "T_α", "Epochs", "Best, %", "Last, %")
    return Table(headings=(*headings, "Last, relaxed, %", "Seeds", "Time"), rows=tuple(rows), words=4)


def few_steps(records: Iterable[Record]) -> Table:
    """A few hundred real steps of the networks that a CPU cannot train to the end."""
    rows = []
    for record in records:
        recipe, result = record.recipe, record.result
        if recipe.train_samples is None:
            continue
        rate = 3 * record.network["macs"] * recipe.batch_size / result.seconds_per_step
        rows.append(
            (
                recipe_title(recipe),
                str(recipe.bits),
                f"{record.total_steps:,}",
                str(recipe.batch_size),
                f"{result.first_train_loss:.3f}",
                f"{result.last_train_loss:.3f}",
                f"{result.seconds_per_step:.2f}",
                f"{rate / 1e9:.0f}",
            )
        )
    headings = ("Experiment", "Bits", "Steps", "Images per step", "Loss, first epoch", "Loss, last epoch")
    return Table(headings=(*headings, "Seconds per step", "GMAC/s"), rows=tuple(rows), words=1)


def gpu(recipes: Sequence[Recipe], macs: Mapping[str, int]) -> Table:
    """The predicted cost of runs on one GPU, per run and in total.

    Args:
        recipes: the runs.
        macs: multiply-adds per image, by the name of the recipe.
    """
    rows, hours = [], 0.0
    for recipe in recipes:
        cost = gpu_cost(recipe, macs[recipe.name])
        hours += cost.hours
        rows.append(
            (
                recipe_title(recipe),
                str(recipe.bits),
                f"{macs[recipe.name] / 1e6:,.1f} M",
                str(recipe.batch_size),
                f"{cost.operations / 1e9:,.0f} · 10⁹",
                f"{cost.steps:,}",
                f"{cost.hours:,.2f}",
            )
        )
    rows.append(("**total**", "", "", "", "", "", f"**{hours:,.1f}**"))
    headings = ("Experiment", "Bits", "MACs per image", "Images per step", "Operations per step", "Steps")
    return Table(headings=(*headings, f"Hours, {GPU.name}"), rows=tuple(rows), words=1)


def provenance(records: Iterable[Record]) -> Table:
    """Where every measured number comes from."""
    rows = []
    for record in records:
        origin = record.origin
        hardware, versions = origin["hardware"], origin["versions"]
        threads = "1 thread" if origin["threads"] == 1 else f"{origin['threads']} threads"
        rows.append(
            (
                f"`{record.name}`",
                str(record.recipe.seed),
                origin["started"],
                duration(record.result.seconds),
                hardware.get("accelerator") or f"{hardware['processor']}, {threads}",
                f"{versions['python']}, {versions.get('torch', ABSENT)}",
                short_revision(origin["revision"]),
                str(len(origin["resumed"])),
            )
        )
    headings = ("Record", "Seed", "Started (UTC)", "Time", "Hardware", "Python, PyTorch", "Revision", "Resumed")
    return Table(headings=headings, rows=tuple(rows), words=7)


def summary(records: Sequence[Record]) -> str:
    """One line per experiment that was run in full, and per float network that became binary on all images."""
    lines = []
    for (name, bits, t_alpha), runs in full_results(records).items():
        theirs = paper_error(name, bits, t_alpha)
        beside = "not in the paper" if theirs is None else f"paper: {theirs.error:.2f} % (table {theirs.table})"
        lines.append(_summary_line(runs, beside))
    tuned = (record for record in records if is_fine_tuned(record.recipe))
    lines += [
        _summary_line(runs, f"from a {_start(recipe)}; not in the paper") for recipe, runs in by_recipe(tuned).items()
    ]
    return "\n".join(lines) or "No experiment has been run in full yet."


def _summary_line(runs: Repeated, beside: str) -> str:
    recipe = runs.recipe
    setting = f"{recipe.bits} bit"
    if recipe.bits == 1:
        of_paper = recipe.method == "group_transform"
        setting += f", T_α {recipe.t_alpha:g}" if of_paper else f", {method_title(recipe.method)}"
    return (
        f"- **{recipe_title(recipe)}, {setting}:** best {runs.text('best_error')} % in {recipe.epochs} epochs, "
        f"{runs.text('last_error')} % after the last ({counted(runs.seeds, 'seed')}); {beside}."
    )


def not_measured(records: Sequence[Record]) -> str:
    """One sentence about the paper's results that no record measures."""
    found = full_results(records)
    entries = list({(entry.recipe, entry.bits, entry.t_alpha): entry for entry in (*PAPER_RESULTS, *PAPER_T_ALPHA)})
    missing = [key for key in entries if key not in found]
    tables = f"tables {RESULTS_TABLE} and {T_ALPHA_TABLE}"
    if not missing:
        return f"All {len(entries)} results of {tables} are measured."
    parts = []
    for name in dict.fromkeys(name for name, _, _ in missing):
        bits = ["32 bit"] if (name, 32, None) in missing else []
        alphas = sorted(t_alpha for recipe, _, t_alpha in missing if recipe == name and t_alpha is not None)
        if alphas:
            bits.append(f"1 bit with T_α {', '.join(f'{value:g}' for value in alphas)}")
        parts.append(f"{name_title(name)} ({'; '.join(bits)})")
    measured = len(entries) - len(missing)
    return f"Of the {len(entries)} results in {tables}, {measured} are measured; not measured: {', '.join(parts)}."
