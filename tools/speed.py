"""The speed of every engine: a summary for ``docs/speed.md``, and every time for ``results/rendered/speed.md``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from signwise.bench.engines import PRECISIONS
from signwise.bench.isolated import ENGINES
from signwise.bench.measure import Setting
from signwise.bench.report import megabytes, milliseconds
from signwise.reproduce.tables import Table
from tools.inference_records import JsonObject, against_fastest_peer, settings, title

MISSING = "_Not recorded yet._"
ALL_TIMES = Path("results/rendered/speed.md")
_HIDDEN = "The same machine with AVX-512, AVX-VNNI and AMX hidden from every engine, ours included."


def blocks(records: Mapping[Path, JsonObject]) -> dict[str, str]:
    """What ``docs/speed.md`` shows between its markers: the range of ratios per processor, and where we are slower."""
    if not records:
        return {"speed": MISSING, "layers": MISSING}
    rows, slower = [], []
    for record in records.values():
        for where, networks in _machines(record):
            ratios: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
            for name, precision, setting, ratio in _ratios(networks):
                ratios[precision].append(ratio)
                if ratio < 1:
                    slower.append(f"{title(name)} with {precision} at {setting} on {where} ({ratio:.2f} ×)")
            measured = ", ".join(title(name) for name in networks)
            rows.append(
                (where, measured, record["date"][:10], *(_range(ratios[precision]) for precision in PRECISIONS))
            )
    headings = ("processor", "networks", "measured", *PRECISIONS)
    count = sum(1 for record in records.values() for _, networks in _machines(record) for _ in _ratios(networks))
    sentence = (
        f"Of {count} comparisons, signwise is slower in {len(slower)}{': ' if slower else ''}{'; '.join(slower)}."
    )
    return {
        "speed": f"{Table(headings=headings, rows=tuple(rows), words=3).markdown()}\n\n{sentence}",
        "layers": _layers(records),
    }


def _layers(records: Mapping[Path, JsonObject]) -> str:
    """Where the time of MobileNetV2 goes, by kind of operation: its layers are the smallest."""
    parts = []
    for record in records.values():
        network = record["networks"].get("mobilenet_v2", {})
        if "layers" not in network:
            continue
        totals: dict[str, dict[str, float]] = {}
        for precision, layers in network["layers"].items():
            for layer in layers:
                of_kind = totals.setdefault(layer["kind"], dict.fromkeys(network["layers"], 0.0))
                of_kind[precision] += layer["seconds"]
        rows = tuple((kind, *(f"{1e6 * times[p]:.0f}" for p in PRECISIONS)) for kind, times in totals.items())
        headings = ("operations", *(f"{precision}, µs" for precision in PRECISIONS))
        where = record["hardware"]["processor"]
        parts.append(f"{Table(headings=headings, rows=rows, words=1).markdown()}\n\nOn {where}, one image, one thread.")
    return "\n\n".join(parts) or MISSING


def _machines(record: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    processor = record["hardware"]["processor"]
    yield processor, record["networks"]
    if "avx2" in record:
        yield f"{processor}, AVX2 alone", record["avx2"]["networks"]


def _ratios(networks: JsonObject) -> Iterator[tuple[str, str, Setting, float]]:
    for name, network in networks.items():
        for precision in PRECISIONS:
            for batch, threads in settings(network):
                times = against_fastest_peer(network, precision, batch, threads)
                if times is not None:
                    yield name, precision, Setting(batch=batch, threads=threads), times.ratio


def _range(ratios: list[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f} ×" if ratios else "–"


def all_times(records: Mapping[Path, JsonObject]) -> str:
    """The page with every time of every engine, one section per processor."""
    parts = [
        "# Every time of every engine",
        "Best of many runs. In brackets: how many times as long as the packed file with the same activations. "
        "[How it is measured](../../docs/speed.md). Rendered by `tools/render_docs.py`; do not edit.",
    ]
    for path, record in records.items():
        for index, (where, networks) in enumerate(_machines(record)):
            parts += [f"## {where}", _HIDDEN if index else _origin(path, record)]
            for name, network in networks.items():
                parts += [f"### {title(name)}", _table(network).markdown(), *_remarks(network, record)]
    return "\n\n".join(parts if records else [*parts, MISSING]) + "\n"


def _table(network: JsonObject) -> Table:
    def best(row: JsonObject) -> dict[tuple[int, int], float]:
        return {(entry["batch"], entry["threads"]): entry["best"] for entry in row["times"]}

    ours = {row["precision"]: best(row) for row in network["rows"] if row["engine"] == "signwise"}
    rows = []
    for row in network["rows"]:
        times = []
        for setting in settings(network):
            seconds = best(row)[setting]
            mine = ours.get(row["precision"], {}).get(setting)
            beside = "" if mine is None or row["engine"] == "signwise" else f" ({seconds / mine:.2f} ×)"
            times.append(milliseconds(seconds) + beside)
        name = f"**{row['title']}**" if row["engine"] == "signwise" else row["title"]
        rows.append((name, row["precision"], *times, megabytes(row["memory_bytes"]), megabytes(row["file_bytes"])))
    columns = [str(Setting(batch=batch, threads=threads)) for batch, threads in settings(network)]
    return Table(headings=("engine", "activations", *columns, "memory", "file"), rows=tuple(rows), words=2)


def _remarks(network: JsonObject, record: JsonObject) -> list[str]:
    failures = [
        f"{ENGINES[entry['engine']].title} {entry['precision']} is missing: {entry['reason']}"
        for entry in network["failures"]
    ]
    earlier = []
    if network.get("revision", record["revision"]) != record["revision"]:
        earlier = [f"Measured {network['date'][:10]} at revision {(network['revision'] or 'unknown')[:7]}"]
    remarks = [f"- {remark.rstrip('.')}." for remark in (*network["notes"], *failures, *earlier)]
    return ["\n".join(remarks)] if remarks else []


def _origin(path: Path, record: JsonObject) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if name != "signwise")
    machine = f"{record['hardware']['cores']} cores, {record['hardware']['system']}"
    isa = next(iter(record["networks"].values()))["isa"]
    return (
        f"Measured {record['date'][:10]}: {machine}, signwise {record['versions']['signwise']} (revision "
        f"{(record['revision'] or 'unknown')[:7]}), kernels for {isa}, {versions}. "
        f"[The record](../{path.relative_to('results').as_posix()}) also has medians and numbers of runs."
    )
