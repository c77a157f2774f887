"""The paper's tables of results, with what was measured here beside every number."""

from __future__ import annotations

from collections.abc import Iterable

from signwise.reproduce import paper
from signwise.reproduce.naming import is_full
from signwise.reproduce.record import Record
from signwise.reproduce.seeds import Repeated, by_recipe, difference
from signwise.reproduce.table import ABSENT, Table

_Key = tuple[str, int, "float | None"]


def full_results(records: Iterable[Record]) -> dict[_Key, Repeated]:
    """The experiments that were carried out in full, by recipe, bits and T_α."""
    repeated = by_recipe(record for record in records if is_full(record.recipe))
    return {(recipe.name, recipe.bits, recipe.t_alpha): runs for recipe, runs in repeated.items()}


def table1(records: Iterable[Record]) -> Table:
    """Table 1: every experiment with 32 bits and with 1 bit; the last columns are the gain of 1 bit over 32."""
    found = full_results(records)
    rows = []
    for entry in paper.RESULTS:
        model, dataset = entry.recipe.split("-")
        ours = found.get((entry.recipe, entry.bits, entry.t_alpha))
        change = (ABSENT, ABSENT)
        if entry.bits == 1:
            twin = found.get((entry.recipe, 32, None))
            full = next(other.error for other in paper.RESULTS if other.recipe == entry.recipe and other.bits == 32)
            gain = None if ours is None or twin is None else twin.mean("best_error") - ours.mean("best_error")
            change = (f"{full - entry.error:+.2f}", ABSENT if gain is None else f"{gain:+.2f}")
        rows.append(
            (
                paper.DATASETS[dataset],
                paper.NETWORKS[model],
                str(entry.bits),
                f"{entry.error:.2f}",
                *_ours(ours, entry.error),
                ABSENT if ours is None else ours.text("last_error"),
                *change,
            )
        )
    headings = ("Data set", "Network", "Bits", "Paper, %", "Ours, %", "Difference", "Seeds", "Ours, last epoch, %")
    return Table(headings=(*headings, "Gain, paper", "Gain, ours"), rows=tuple(rows), words=2)


def _ours(ours: Repeated | None, theirs: float) -> tuple[str, str, str]:
    if ours is None:
        return (ABSENT, ABSENT, "0")
    return (ours.text("best_error"), difference(ours.mean("best_error"), theirs), str(ours.seeds))


def alpha(records: Iterable[Record]) -> Table:
    """Table 5: the effect of progressive binarization."""
    found = full_results(records)
    rows = []
    for entry in paper.T_ALPHA:
        model, dataset = entry.recipe.split("-")
        ours = found.get((entry.recipe, 1, entry.t_alpha))
        name = f"{paper.NETWORKS[model]} on {paper.DATASETS[dataset]}"
        rows.append((name, f"{entry.t_alpha:g}", f"{entry.error:.2f}", *_ours(ours, entry.error)))
    headings = ("Experiment", "T_α", "Paper, %", "Ours, %", "Difference", "Seeds")
    return Table(headings=headings, rows=tuple(rows), words=1)


def comparison(records: Iterable[Record]) -> Table:
    """Tables 3 and 4: binary weights by other methods, as the paper quotes them, and by this one."""
    found = full_results(records)
    rows = []
    for entry in paper.COMPARISON:
        method = entry.method or "**this method**"
        default = next((other for other in paper.RESULTS if other.recipe == entry.recipe and other.bits == 1), None)
        ours = found.get((default.recipe, 1, default.t_alpha)) if default is not None else None
        measured = _ours(ours, entry.error) if entry.method is None else (ABSENT, ABSENT, ABSENT)
        rows.append((paper.DATASETS[entry.dataset], method, entry.network, f"{entry.error:.1f}", *measured))
    small = found.get(("resnet20-cifar10", 1, 0.9))
    if small is not None:
        measured = (small.text("best_error"), ABSENT, str(small.seeds))
        rows.append((paper.DATASETS["cifar10"], "**this method**", paper.NETWORKS["resnet20"], ABSENT, *measured))
    headings = ("Data set", "Method", "Network", "Paper, %", "Ours, %", "Difference", "Seeds")
    return Table(headings=headings, rows=tuple(rows), words=3)
