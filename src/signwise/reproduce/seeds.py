"""Several runs that differ in their seed alone, as one result."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from signwise.reproduce.record import Record
from signwise.reproduce.table import ABSENT
from signwise.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True, eq=False)
class Repeated:
    """The runs of one recipe, by seed.

    Args:
        recipe: the recipe, with seed 0.
        records: its runs, one a seed; at least one.
    """

    recipe: Recipe
    records: Sequence[Record]

    @property
    def seeds(self) -> int:
        return len(self.records)

    def mean(self, name: str) -> float:
        """The mean over the seeds of a number in the records' results, such as ``best_error``."""
        return statistics.fmean(getattr(record.result, name) for record in self.records)

    def text(self, name: str) -> str:
        """The mean with two digits, and with the standard deviation where there are several seeds."""
        values = [getattr(record.result, name) for record in self.records]
        if any(value is None for value in values):
            return ABSENT
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        return f"{statistics.fmean(values):.2f}{spread}"


def by_recipe(records: Iterable[Record]) -> dict[Recipe, Repeated]:
    """The records that share everything but their seed, together; in the order of their first."""
    found: dict[Recipe, list[Record]] = {}
    for record in records:
        found.setdefault(dataclasses.replace(record.recipe, seed=0), []).append(record)
    return {recipe: Repeated(recipe=recipe, records=runs) for recipe, runs in found.items()}


def difference(ours: float, theirs: float) -> str:
    """By how much our error is above the paper's, in points of percent, with its sign."""
    return f"{ours - theirs:+.2f}"
