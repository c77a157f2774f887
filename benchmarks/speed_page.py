"""Every time of every engine, for ``docs/speed.md``, from the record that ``inference.py`` wrote.

    python benchmarks/speed_page.py        # make render does this too

Nothing is measured here; rendering again changes nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from signwise.bench import ENGINES
from signwise.bench.report import megabytes, milliseconds
from signwise.reproduce.markers import fill_file
from signwise.reproduce.table import Table

ROOT = Path(__file__).parents[1]
MISSING = "_Not recorded yet._"
TITLES = {
    "lenet5": "LeNet5",
    "vgg_small": "VGG-Small",
    "resnet18": "ResNet-18",
    "wrn28_10": "WRN-28-10",
    "dense4096": "One dense layer, 4096 × 4096",
}


def blocks(record: dict[str, Any] | None) -> dict[str, str]:
    """What stands between the markers of the page.

    Args:
        record: what ``inference.py`` wrote, or ``None`` where it has not run yet.
    """
    if record is None:
        return {"origin": MISSING, "times": MISSING, "times-avx2": MISSING}
    hidden = record.get("avx2", {}).get("networks")
    return {
        "origin": _origin(record),
        "times": _tables(record["networks"]),
        "times-avx2": MISSING if hidden is None else _tables(hidden),
    }


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


def _origin(record: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    machine = f"{record['hardware']['processor']}, {record['hardware']['cores']} cores, {record['hardware']['system']}"
    isa = next(iter(record["networks"].values()))["isa"]
    return (
        f"Measured {record['date'][:10]} on an {machine}, our kernels with {isa}, {versions}, by "
        "`benchmarks/inference.py`: [the record](../results/inference.json), medians and numbers of runs included."
    )


def main() -> None:
    path, page = ROOT / "results/inference.json", ROOT / "docs/speed.md"
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    print(f"{page.relative_to(ROOT)} {'rendered' if fill_file(page, blocks(record)) else 'is up to date'}")


if __name__ == "__main__":
    main()
