"""The tables and figures of the comparison of methods, from its records."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from signwise.figures.ranking import Ranked, ranking_figure
from signwise.reproduce.experiments import PUBLISHED_RESNET20
from signwise.reproduce.method_comparison import (
    ALPHA,
    AUTHORS,
    COMMON,
    FULL_PRECISION,
    RESNET,
    RESNET_ALPHA,
    RESNET_EPOCHS,
    RESNET_ZETA,
    entries,
    measured,
    resnet_entries,
)
from signwise.reproduce.records import ABSENT, mean_and_spread, short_revision
from signwise.reproduce.render import draw_if_changed, write_if_changed
from signwise.reproduce.tables import Table, method_title
from signwise.text import counted


def _errors(runs: Sequence[dict[str, Any]] | None, key: str = "last_error") -> str:
    return ABSENT if runs is None else mean_and_spread([run[key] for run in runs])


def _title(label: str) -> str:
    return "32 bits" if label == FULL_PRECISION else method_title(label)


def methods_table(records: Path) -> Table:
    """Every method in both settings, in the order of its error with the common optimizer."""
    found = measured(records)
    labels = dict.fromkeys(label for group, label in found if group in (COMMON, AUTHORS))

    def rank(label: str) -> float:
        runs = found.get((COMMON, label)) or found[AUTHORS, label]
        return statistics.fmean(run["last_error"] for run in runs)

    rows = tuple(
        (
            _title(label),
            _errors(found.get((COMMON, label))),
            _errors(found.get((COMMON, label)), "best_error"),
            _errors(found.get((AUTHORS, label))),
            _errors(found.get((AUTHORS, label)), "best_error"),
            _relative_step(found.get((AUTHORS, label))),
            str(len(found.get((COMMON, label), ()))),
            str(len(found.get((AUTHORS, label), ()))),
        )
        for label in sorted(labels, key=rank)
    )
    headings = ("Method", "Adam, last, %", "Adam, best, %", "Authors' setting, last, %", "Authors', best, %")
    return Table(headings=(*headings, "Relative step, authors'", "Seeds, Adam", "Seeds, authors'"), rows=rows, words=1)


def _relative_step(runs: Sequence[dict[str, Any]] | None) -> str:
    """The relative step at the end of the first epoch, which means nothing with Adam."""
    if runs is None or any(run["settings"].get("optimizer") == "adam" for run in runs):
        return ABSENT
    values = [run["relative_steps"][0] for run in runs]
    return ABSENT if None in values else f"{statistics.fmean(values):.1e}"


def alpha_table(records: Path) -> Table:
    """The error by T_α, in short trainings of both networks."""
    found = measured(records)
    rows = tuple(
        (label, *_last_and_seeds(found.get((ALPHA, label))), *_last_and_seeds(found.get((RESNET_ALPHA, label))))
        for label in dict.fromkeys(label for group, label in found if group in (ALPHA, RESNET_ALPHA))
    )
    return Table(headings=("T_α", "LeNet5, last, %", "Seeds", "ResNet-20, last, %", "Seeds"), rows=rows, words=0)


def zeta_table(records: Path) -> Table:
    """The error by the ζ that the steps begin with, in short trainings of ResNet-20 with α = 1."""
    found = measured(records)
    rows = tuple((label, *_last_and_seeds(runs)) for (group, label), runs in found.items() if group == RESNET_ZETA)
    return Table(headings=("ζ at the start", "ResNet-20, last, %", "Seeds"), rows=rows, words=0)


def _last_and_seeds(runs: Sequence[dict[str, Any]] | None) -> tuple[str, str]:
    return _errors(runs), str(len(runs or ()))


def _on_resnet(records: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """The methods that were run on ResNet-20 with their runs, in the order of the error."""
    found = [(label, runs) for (group, label), runs in measured(records).items() if group == RESNET]
    return sorted(found, key=lambda each: statistics.fmean(run["last_error"] for run in each[1]))


def resnet_table(records: Path) -> Table:
    """What each method makes of the same float ResNet-20, in the order of its error, beside published errors."""
    rows = tuple(
        (
            _title(label),
            _errors(runs),
            f"{runs[0]['start_error']:.2f}",
            str(len(runs)),
            str(PUBLISHED_RESNET20.get(label, ABSENT)),
        )
        for label, runs in _on_resnet(records)
    )
    headings = ("Method", "Last, %", "Float network before, %", "Seeds", "Published, % (epochs, source)")
    return Table(headings=headings, rows=rows, words=1)


def methods_markdown(records: Path) -> str:
    """The recorded comparison as a table and a sentence about its setting; a note if there is no record."""
    return _markdown(records, methods_table(records), _digits(), COMMON, AUTHORS)


def alpha_markdown(records: Path) -> str:
    """The recorded effect of T_α, likewise."""
    return _markdown(records, alpha_table(records), f"{_digits()}; {_objects()}", ALPHA, RESNET_ALPHA)


def zeta_markdown(records: Path) -> str:
    """The recorded effect of ζ, likewise."""
    return _markdown(records, zeta_table(records), _objects(), RESNET_ZETA)


def resnet_markdown(records: Path) -> str:
    """The recorded comparison on ResNet-20, likewise."""
    return _markdown(records, resnet_table(records), _objects(), RESNET)


def _objects() -> str:
    first = resnet_entries()[0]
    assert first.start is not None
    return (
        f"ResNet-20 on CIFAR-10, {counted(first.recipe.epochs, 'epoch')} with Adam from one float network, "
        f"which was trained for {first.start.epochs} epochs"
    )


def _digits() -> str:
    steps = entries()[0].recipe
    return (
        f"LeNet5 on MNIST, {steps.epochs} epochs of {steps.train_samples:,} training images in batches of "
        f"{steps.batch_size}"
    )


def _markdown(records: Path, table: Table, setting: str, *groups: str) -> str:
    if not table.rows:
        return "_Not measured yet._"
    origins = [run["origin"] for (group, _), runs in measured(records).items() if group in groups for run in runs]
    days = sorted({origin["date"][:10] for origin in origins})
    processors, versions = (", ".join(sorted({origin[name] for origin in origins})) for name in ("processor", "torch"))
    revisions = sorted({short_revision(origin["revision"]) for origin in origins})
    note = (
        f"{setting}, all test images; error of the deployed weights, mean and standard deviation over seeds. "
        f"{processors}, PyTorch {versions}, {' to '.join(dict.fromkeys((days[0], days[-1])))}, "
        f"{'revision' if len(revisions) == 1 else 'revisions'} {', '.join(revisions)}."
    )
    return f"{table.markdown()}\n\n{note}"


def render_methods(records: Path, out: Path) -> list[Path]:
    """Write the tables and figures of the comparison; nothing without a record.

    Returns:
        The files, whether they changed or not.
    """
    tables = {
        "methods": (methods_table(records), methods_markdown(records)),
        "t-alpha": (alpha_table(records), alpha_markdown(records)),
        "zeta": (zeta_table(records), zeta_markdown(records)),
        "methods-resnet20": (resnet_table(records), resnet_markdown(records)),
    }
    files = []
    for name, (table, text) in tables.items():
        if table.rows:
            write_if_changed(out / f"{name}.md", text + "\n")
            write_if_changed(out / f"{name}.csv", table.csv())
            files += [out / f"{name}.md", out / f"{name}.csv"]
    contents = b"".join(path.read_bytes() for path in sorted(records.glob("methods-*.json")))
    for name, rows in (("methods", ranking(records)), ("methods-resnet20", resnet_ranking(records))):
        if rows:
            figure = out / f"{name}.png"
            draw_if_changed(figure, hashlib.sha256(contents).hexdigest(), partial(ranking_figure, rows))
            files.append(figure)
    return files


def ranking(records: Path) -> list[Ranked]:
    """The rows of the figure for LeNet5: every method with the errors of its seeds, in the order of the table."""
    found = measured(records)
    by_title = {_title(label): label for group, label in found if group in (COMMON, AUTHORS)}
    return [
        Ranked(
            label=title,
            errors={
                name: [run["last_error"] for run in found.get((group, by_title[title]), ())]
                for group, name in ((COMMON, "Adam for all"), (AUTHORS, "authors' setting"))
            },
            is_full_precision=by_title[title] == FULL_PRECISION,
        )
        for title, *_ in methods_table(records).rows
    ]


def resnet_ranking(records: Path) -> list[Ranked]:
    """The rows of the figure for ResNet-20: every method with the errors of its seeds, beside the published error."""
    ours = f"from a float network, {counted(RESNET_EPOCHS, 'epoch')}"
    return [
        Ranked(
            label=_title(label),
            errors={
                ours: [run["last_error"] for run in runs],
                "published": [PUBLISHED_RESNET20[label].error] if label in PUBLISHED_RESNET20 else [],
            },
            is_full_precision=label == FULL_PRECISION,
        )
        for label, runs in _on_resnet(records)
    ]
