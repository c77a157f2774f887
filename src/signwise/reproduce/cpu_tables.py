"""What was run at the size of a CPU, what the whole would cost on a GPU, and where every number comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from signwise.reproduce import paper
from signwise.reproduce.gpu_cost import GPU, gpu_cost
from signwise.reproduce.naming import is_full
from signwise.reproduce.record import Record
from signwise.reproduce.seeds import by_recipe
from signwise.reproduce.table import ABSENT, Table
from signwise.training.monitor import duration
from signwise.training.recipe import Recipe


def network_title(recipe: Recipe) -> str:
    """The network and the data set as the paper writes them.

    Example:
        >>> from signwise.training import recipe
        >>> network_title(recipe("lenet5-mnist"))
        'LeNet5 on MNIST'
    """
    return f"{paper.NETWORKS.get(recipe.model, recipe.model)} on {paper.DATASETS.get(recipe.dataset, recipe.dataset)}"


_METHODS = {
    "group_transform": "this method",
    "binary_connect": "BinaryConnect",
    "scaled_sign": "scaled sign (McDonnell)",
    "straight_through": "straight-through sign",
}


def method_title(recipe: Recipe) -> str:
    """How the weights become binary, in words; absent with 32 bits."""
    return ABSENT if recipe.bits == 32 else _METHODS.get(recipe.method, recipe.method)


def _t_alpha(recipe: Recipe) -> str:
    # The other methods have no α: whatever their recipe says is not used.
    unused = recipe.t_alpha is None or recipe.method != "group_transform"
    return ABSENT if unused else f"{recipe.t_alpha:g}"


def short(records: Iterable[Record]) -> Table:
    """Runs on all of the data that are no experiment of the paper: fewer epochs, or another method."""
    chosen = [record for record in records if not is_full(record.recipe) and record.recipe.train_samples is None]
    rows = [
        (
            network_title(recipe),
            method_title(recipe),
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
    headings = ("Experiment", "Method", "Bits", "T_α", "Epochs", "Best, %", "Last, %", "Last, relaxed, %")
    return Table(headings=(*headings, "Seeds", "Time"), rows=tuple(rows), words=2)


def trials(records: Iterable[Record]) -> Table:
    """A few hundred real steps of the networks that a CPU cannot train to the end."""
    rows = []
    for record in records:
        recipe, result = record.recipe, record.result
        if recipe.train_samples is None:
            continue
        rate = 3 * record.network["macs"] * recipe.batch_size / result.seconds_per_step
        rows.append(
            (
                network_title(recipe),
                str(recipe.bits),
                f"{record.total_steps:,}",
                str(recipe.batch_size),
                f"{result.first_train_loss:.3f}",
                f"{result.last_train_loss:.3f}",
                f"{result.seconds_per_step:.2f}",
                f"{rate / 1e9:.0f}",
            )
        )
    headings = ("Experiment", "Bits", "Steps", "Images a step", "Loss, first epoch", "Loss, last epoch")
    return Table(headings=(*headings, "Seconds a step", "GMAC/s"), rows=tuple(rows), words=1)


def gpu(recipes: Sequence[Recipe], macs: Mapping[str, int]) -> Table:
    """The predicted cost of runs on one GPU, row by row and in all.

    Args:
        recipes: the runs.
        macs: multiply-adds an image, by the name of the recipe.
    """
    rows, hours = [], 0.0
    for recipe in recipes:
        cost = gpu_cost(recipe, macs[recipe.name])
        hours += cost.hours
        rows.append(
            (
                network_title(recipe),
                str(recipe.bits),
                f"{macs[recipe.name] / 1e6:,.1f} M",
                str(recipe.batch_size),
                f"{cost.operations / 1e9:,.0f} · 10⁹",
                f"{cost.steps:,}",
                f"{cost.hours:,.2f}",
            )
        )
    rows.append(("**all of them**", "", "", "", "", "", f"**{hours:,.1f}**"))
    headings = (
        "Experiment",
        "Bits",
        "MACs an image",
        "Images a step",
        "Operations a step",
        "Steps",
        f"Hours, {GPU.name}",
    )
    return Table(headings=headings, rows=tuple(rows), words=1)


def provenance(records: Iterable[Record]) -> Table:
    """Where every measured number comes from."""
    rows = []
    for record in records:
        origin = record.origin
        hardware, versions = origin["hardware"], origin["versions"]
        place = hardware.get("accelerator") or f"{hardware['processor']}, {_threads(origin['threads'])}"
        revision = origin["revision"]
        rows.append(
            (
                f"`{record.name}`",
                str(record.recipe.seed),
                origin["started"],
                duration(record.result.seconds),
                place,
                f"{versions['python']}, {versions.get('torch', ABSENT)}",
                ABSENT if revision is None else f"`{revision[:10]}{'+' if revision.endswith('+changes') else ''}`",
                str(len(origin["resumed"])),
            )
        )
    headings = ("Record", "Seed", "Started (UTC)", "Time", "Hardware", "Python, PyTorch", "Revision", "Resumed")
    return Table(headings=headings, rows=tuple(rows), words=7)


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
