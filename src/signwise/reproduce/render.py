"""From records to Markdown, CSV and figures. Nothing is trained, and unchanged files are not written again."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from signwise.atomic import atomic_write
from signwise.figures import save
from signwise.figures.bars import ErrorPair, bit_widths_figure
from signwise.figures.curves import AccuracyCurve, accuracy_curves_figure
from signwise.figures.layer_state import layer_state_figure
from signwise.reproduce import tables
from signwise.reproduce.experiments import PAPER_RESULTS, TARGETS, experiments, is_full
from signwise.reproduce.records import Record, by_recipe
from signwise.reproduce.tables import Table, changed_settings, full_results, method_title, name_title, recipe_title
from signwise.training.evaluate import network_cost
from signwise.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The tables, texts and figures of each target.
_OF_TARGET = {
    "table1": ("summary", "not-measured", "table1", "bits", "few-steps", "gpu", "provenance"),
    "alpha": ("alpha", "short", "provenance"),
    "comparison": ("comparison", "provenance"),
    "state-figure": ("state",),
    "accuracy-figure": ("accuracy",),
}


def all_tables(records: Sequence[Record]) -> dict[str, Table]:
    """All tables, by name; one without rows has nothing to show yet."""
    full = experiments("table1", "full")
    macs = {recipe.name: network_cost(recipe).macs for recipe in full if recipe.bits == 1}
    return {
        "table1": tables.table1(records),
        "alpha": tables.alpha(records),
        "comparison": tables.comparison(records),
        "short": tables.short(records),
        "few-steps": tables.few_steps(records),
        "gpu": tables.gpu(full, macs),
        "provenance": tables.provenance(records),
    }


def texts(records: Sequence[Record]) -> dict[str, str]:
    """All tables and sentences as Markdown, by name."""
    shown = {name: table.markdown() if table.rows else "_Not measured._" for name, table in all_tables(records).items()}
    return shown | {"summary": tables.summary(records), "not-measured": tables.not_measured(records)}


def render(target: str, records: Sequence[Record], out: Path) -> list[Path]:
    """Write the tables and figures of a target.

    Args:
        target: one of :data:`~signwise.reproduce.experiments.TARGETS`, or ``all``.
        records: what was measured.
        out: the folder for the files.

    Returns:
        The files of the target, whether they changed or not.
    """
    wanted = {name for key in (TARGETS if target == "all" else (target,)) for name in _OF_TARGET[key]}
    contents = {f"{name}.md": text + "\n" for name, text in texts(records).items()}
    contents |= {f"{name}.csv": table.csv() for name, table in all_tables(records).items() if table.rows}
    files = []
    for name, text in contents.items():
        if name.split(".")[0] in wanted:
            files.append(out / name)
            write_if_changed(out / name, text)
    for name, draw in FIGURES.items():
        path = out / f"{name}.png"
        if name in wanted and draw_if_changed(path, drawn_from(records), functools.partial(draw, records)):
            files.append(path)
    return files


def write_if_changed(path: Path, text: str) -> bool:
    """Write a text file unless it already has this content; returns whether it was written."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text.encode())
    return True


def draw_if_changed(path: Path, digest: str, draw: Callable[[], Figure | None]) -> bool:
    """Draw a figure unless it was drawn from the same records; returns whether there is one.

    Another version of matplotlib draws other bytes. The comparison therefore uses the hash of the records, which the
    file holds, and not the picture.

    Args:
        path: the file.
        digest: the SHA-256 of the records.
        draw: draws the figure, or returns ``None`` if there is nothing to draw.
    """
    origin = f"drawn from records with SHA-256 {digest}"
    if path.exists() and origin.encode() in path.read_bytes():
        return True
    figure = draw()
    if figure is None:
        return False
    save(figure, path, about=origin)
    return True


def drawn_from(records: Sequence[Record]) -> str:
    """The hash of everything that figures are drawn from.

    Settings at their defaults do not count: a setting that recipes gain later does not date the figures.
    """
    defaults = {entry.name: entry.default for entry in dataclasses.fields(Recipe)}
    digest = hashlib.sha256()
    for record in records:
        content = json.loads(record.to_json())
        recipe = content["recipe"].items()
        content["recipe"] = {name: value for name, value in recipe if defaults.get(name) != value}
        digest.update(json.dumps(content, sort_keys=True).encode())
    return digest.hexdigest()


def _draw_state(records: Sequence[Record]) -> Figure | None:
    """The layer of the longest binary run, preferably of a full experiment."""
    watched = [record for record in records if len(record.state) > 1]
    if not watched:
        return None
    record = max(watched, key=lambda record: (is_full(record.recipe), record.total_steps))
    layer = record.state[0]["layer"]
    title = f"{recipe_title(record.recipe)}, layer {layer}, T_α = {record.recipe.t_alpha:g}"
    return layer_state_figure(record.state, title)


def _draw_accuracy(records: Sequence[Record]) -> Figure | None:
    """Panels with several lines; those of one line alone if there are no others."""
    found = by_recipe(record for record in records if record.recipe.train_samples is None)
    curves = []
    for recipe, runs in found.items():
        # Two lines of a panel may differ in nothing but a setting that labels do not name.
        alike = [other for other in found if _panel(other) == _panel(recipe) and _line(other) == _line(recipe)]
        shared = set.intersection(*(set(changed_settings(other)) for other in alike))
        own = [setting for setting in changed_settings(recipe) if setting not in shared]
        label = textwrap.fill(", ".join([_line(recipe), *own]), 36)
        errors = [100.0 if error is None else error for error in runs.records[0].curves["error"]]
        is_full_precision = recipe.bits == 32
        curves.append(
            AccuracyCurve(group=_panel(recipe), label=label, errors=errors, is_full_precision=is_full_precision)
        )
    lines = Counter(curve.group for curve in curves)
    compared = [curve for curve in curves if lines[curve.group] > 1]
    return accuracy_curves_figure(compared or curves) if curves else None


def _panel(recipe: Recipe) -> str:
    start = "" if recipe.init_from is None else ", fine-tuned"
    return f"{recipe_title(recipe)}, {recipe.epochs} epochs{start}"


def _line(recipe: Recipe) -> str:
    if recipe.method != "group_transform":
        return f"1 bit, {method_title(recipe.method)}"
    return "32 bit" if recipe.t_alpha is None else f"{recipe.bits} bit, $T_α$ = {recipe.t_alpha:g}"


def _draw_bits(records: Sequence[Record]) -> Figure:
    ours = full_results(records)
    pairs = []
    for name in dict.fromkeys(entry.recipe for entry in PAPER_RESULTS):
        full, binary = (next(e for e in PAPER_RESULTS if e.recipe == name and e.bits == bits) for bits in (32, 1))
        label = name_title(name)
        pairs.append(ErrorPair(label=label, full=full.error, binary=binary.error, is_ours=False))
        found = [ours.get((name, entry.bits, entry.t_alpha)) for entry in (full, binary)]
        if any(found):
            measured = [None if runs is None else runs.mean("best_error") for runs in found]
            pairs.append(ErrorPair(label=label, full=measured[0], binary=measured[1], is_ours=True))
    return bit_widths_figure(pairs)


FIGURES: dict[str, Callable[[Sequence[Record]], Figure | None]] = {
    "state": _draw_state,
    "accuracy": _draw_accuracy,
    "bits": _draw_bits,
}
"""What draws each figure; ``None`` if there is nothing to draw."""
