"""From records to Markdown, CSV and figures. Nothing is trained, and what has not changed is not written again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from signwise.atomic import atomic_write
from signwise.figures.accuracy import AccuracyCurve, accuracy_figure
from signwise.figures.bits import BitsPair, bits_figure
from signwise.figures.state import state_figure
from signwise.figures.style import save
from signwise.reproduce import cpu_tables, openings, paper, paper_tables, sentences
from signwise.reproduce.cpu_tables import method_title, network_title
from signwise.reproduce.experiments import TARGETS, experiments
from signwise.reproduce.naming import is_full
from signwise.reproduce.record import Record
from signwise.reproduce.seeds import by_recipe
from signwise.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "rendered"
"""Where, in the folder of results, tables and figures go."""

# What each target renders; the rest belongs to the results as a whole.
_OF_TARGET = {
    "table1": ("summary", "table1", "bits", "trials", "gpu", "provenance"),
    "alpha": ("alpha", "short", "provenance"),
    "comparison": ("comparison", "provenance"),
    "state-figure": ("state",),
    "accuracy-figure": ("accuracy",),
}


def tables(records: Sequence[Record]) -> dict[str, Table]:
    """All tables, by name."""
    from signwise.training.cost import network_cost

    full = experiments("table1", "full")
    macs = {recipe.name: network_cost(recipe).macs for recipe in full if recipe.bits == 1}
    return {
        "table1": paper_tables.table1(records),
        "alpha": paper_tables.alpha(records),
        "comparison": paper_tables.comparison(records),
        "short": cpu_tables.short(records),
        "trials": cpu_tables.trials(records),
        "gpu": cpu_tables.gpu(full, macs),
        "provenance": cpu_tables.provenance(records),
    }


def blocks(records: Sequence[Record], results: Path) -> dict[str, str]:
    """All that stands between the markers of the results' document, by the markers' names."""
    texts = {name: table.markdown() if table.rows else "_Not run yet._" for name, table in tables(records).items()}
    return texts | {
        "summary": sentences.summary(records),
        "absent": sentences.absent(records),
        "assumptions": sentences.assumptions(),
        "openings": openings.markdown(results),
        **{name: _image(name, records) for name in _FIGURES},
    }


def _image(name: str, records: Sequence[Record]) -> str:
    """The line that shows a figure in the document, which lies in a folder beside the results."""
    drawable, words = _SHOWN[name]
    return f"![{words}](../results/{FOLDER}/{name}.png)" if drawable(records) else "_Not run yet._"


def render(target: str, records: Sequence[Record], results: Path) -> list[Path]:
    """Write what a target shows into the folder of results.

    Args:
        target: one of the targets of :mod:`signwise.reproduce.experiments`, or ``all``.
        records: what was measured.
        results: the folder of results.

    Returns:
        The files of the target, whether they changed or not.
    """
    wanted = {name for key in (TARGETS if target == "all" else (target,)) for name in _OF_TARGET[key]}
    folder = results / FOLDER
    files = []
    for name, text in _texts(records, results).items():
        if name.split(".")[0] in wanted:
            files.append(folder / name)
            _write_if_changed(folder / name, text)
    for name, draw in _FIGURES.items():
        path = folder / f"{name}.png"
        if name in wanted and _draw_if_changed(path, draw, records):
            files.append(path)
    return files


def _texts(records: Sequence[Record], results: Path) -> dict[str, str]:
    found = {f"{name}.csv": table.csv() for name, table in tables(records).items()}
    return found | {
        f"{name}.md": text + "\n" for name, text in blocks(records, results).items() if name not in _FIGURES
    }


def _write_if_changed(path: Path, text: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text.encode())


def _draw_if_changed(path: Path, draw: Callable[[Sequence[Record]], Figure | None], records: Sequence[Record]) -> bool:
    """Draw a figure unless it was drawn from the same records; returns whether there is one.

    Another version of matplotlib would draw other bytes: so it is not these that are compared, but the records that
    the file says it was drawn from.
    """
    origin = f"drawn from records with SHA-256 {drawn_from(records)}"
    if path.exists() and origin.encode() in path.read_bytes():
        return True
    figure = draw(records)
    if figure is None:
        return False
    save(figure, path, about=origin)
    return True


def drawn_from(records: Sequence[Record]) -> str:
    """The hash of all that figures are drawn from."""
    return hashlib.sha256("".join(record.to_json() for record in records).encode()).hexdigest()


def _watched(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if len(record.state) > 1]


def _with_curves(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.recipe.train_samples is None]


def _draw_state(records: Sequence[Record]) -> Figure | None:
    """The layer of the longest binary run that was carried out in full, else of the longest."""
    if not _watched(records):
        return None
    record = max(_watched(records), key=lambda record: (is_full(record.recipe), record.total_steps))
    layer = record.state[0]["layer"]
    return state_figure(record.state, f"{network_title(record.recipe)}, layer {layer}, T_α = {record.recipe.t_alpha:g}")


def _draw_accuracy(records: Sequence[Record]) -> Figure | None:
    curves = []
    for recipe, runs in by_recipe(_with_curves(records)).items():
        label = "32 bit" if recipe.t_alpha is None else f"{recipe.bits} bit, $T_α$ = {recipe.t_alpha:g}"
        if recipe.method != "group_transform":
            label = f"1 bit, {method_title(recipe)}"
        errors = [100.0 if error is None else error for error in runs.records[0].curves["error"]]
        group = f"{network_title(recipe)}, {recipe.epochs} epochs"
        curves.append(AccuracyCurve(group=group, label=label, errors=errors, is_full_precision=recipe.bits == 32))
    return accuracy_figure(curves) if curves else None


def _draw_bits(records: Sequence[Record]) -> Figure:
    ours = paper_tables.full_results(records)
    pairs = []
    for name in dict.fromkeys(entry.recipe for entry in paper.RESULTS):
        full, binary = (next(e for e in paper.RESULTS if e.recipe == name and e.bits == bits) for bits in (32, 1))
        model, dataset = name.split("-")
        label = f"{paper.NETWORKS[model]} on {paper.DATASETS[dataset]}"
        pairs.append(BitsPair(label=label, full=full.error, binary=binary.error, is_ours=False))
        found = [ours.get((name, entry.bits, entry.t_alpha)) for entry in (full, binary)]
        if any(found):
            measured = [None if runs is None else runs.mean("best_error") for runs in found]
            pairs.append(BitsPair(label=label, full=measured[0], binary=measured[1], is_ours=True))
    return bits_figure(pairs)


_FIGURES: dict[str, Callable[[Sequence[Record]], Figure | None]] = {
    "state": _draw_state,
    "accuracy": _draw_accuracy,
    "bits": _draw_bits,
}
# When there is something to draw, and what it shows, for those who cannot see it.
_SHOWN: dict[str, tuple[Callable[[Sequence[Record]], object], str]] = {
    "state": (_watched, "Six panels that show how the weights of one layer become binary"),
    "accuracy": (_with_curves, "Test accuracy over the whole training and over its last epochs"),
    "bits": (lambda records: True, "Errors with 32 bits and with 1 bit, the paper's hollow and ours filled"),
}
