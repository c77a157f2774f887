"""Every time of every engine, for ``docs/speed.md``, from the records that ``inference.py`` wrote.

    python benchmarks/speed_page.py        # make render does this too

Nothing is measured here; rendering again changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from signwise.bench import ENGINES
from signwise.bench.records import read_records
from signwise.bench.report import megabytes, milliseconds
from signwise.reproduce.markers import fill_file
from signwise.reproduce.table import Table

ROOT = Path(__file__).parents[1]
MISSING = "_Not recorded yet._"
HIDDEN = (
    "The same machine, with AVX-512, AVX-VNNI and AMX hidden from every engine, ours included: what many processors "
    "have."
)
TITLES = {
    "lenet5": "LeNet5",
    "vgg_small": "VGG-Small",
    "resnet18": "ResNet-18",
    "wrn28_10": "WRN-28-10",
    "dense4096": "One dense layer, 4096 × 4096",
}


def blocks(records: Mapping[Path, dict[str, Any]]) -> dict[str, str]:
    """What stands between the markers of the page: all of one processor, then all of the next.

    Args:
        records: what ``inference.py`` wrote, by file.
    """
    parts = []
    for path, record in records.items():
        parts += [f"## {record['hardware']['processor']}", _origin(path, record), _tables(record["networks"])]
        if "avx2" in record:
            title = f"## {record['hardware']['processor']}, with AVX2 alone"
            parts += [title, HIDDEN, _tables(record["avx2"]["networks"])]
    return {"times": "\n\n".join(parts) or MISSING}


def _tables(networks: dict[str, Any]) -> str:
    parts = []
    for name, measured in networks.items():
        parts += [f"### {TITLES[name]}", _table(measured).markdown(), *_remarks(measured)]
    return "\n\n".join(parts)


def _table(measured: dict[str, Any]) -> Table:
    ours = {row["precision"]: _best(row) for row in measured["rows"] if row["engine"] == "signwise"}
    settings = [(entry["batch"], entry["threads"]) for entry in measured["rows"][0]["times"]]
    rows = []
    for row in measured["rows"]:
        times = []
        for setting in settings:
            seconds = _best(row)[setting]
            mine = ours.get(row["precision"], {}).get(setting)
            beside = "" if mine is None or row["engine"] == "signwise" else f" ({seconds / mine:.2f} ×)"
            times.append(milliseconds(seconds) + beside)
        title = f"**{row['title']}**" if row["engine"] == "signwise" else row["title"]
        rows.append((title, row["precision"], *times, megabytes(row["memory_bytes"]), megabytes(row["file_bytes"])))
    columns = [f"batch {batch}, {threads} thread{'s' if threads > 1 else ''}" for batch, threads in settings]
    return Table(headings=("engine", "activations", *columns, "memory", "file"), rows=tuple(rows), words=2)


def _best(row: dict[str, Any]) -> dict[tuple[int, int], float]:
    return {(entry["batch"], entry["threads"]): entry["best"] for entry in row["times"]}


def _remarks(measured: dict[str, Any]) -> list[str]:
    failures = [
        f"{ENGINES[entry['engine']].title} {entry['precision']} is missing; it says: {entry['reason']}"
        for entry in measured["failures"]
    ]
    return [f"- {remark.rstrip('.')}." for remark in (*measured["notes"], *failures)]


def _origin(path: Path, record: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if name != "signwise")
    machine = f"{record['hardware']['cores']} cores, {record['hardware']['system']}"
    isa = next(iter(record["networks"].values()))["isa"]
    return (
        f"Measured {record['date'][:10]}: {machine}, signwise {record['versions']['signwise']} (revision "
        f"{(record['revision'] or 'unknown')[:7]}), kernels for {isa}, {versions}. "
        f"[The record](../{path.as_posix()}) has medians and numbers of runs as well."
    )


def main() -> None:
    page = ROOT / "docs/speed.md"
    rendered = fill_file(page, blocks(read_records(ROOT / "results")))
    print(f"{page.relative_to(ROOT)} {'rendered' if rendered else 'is up to date'}")


if __name__ == "__main__":
    main()
