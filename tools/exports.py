"""The tables of exported networks, from ``results/exports.json`` and ``results/targets.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from signwise.reproduce.tables import Table
from tools.inference_records import JsonObject

MISSING = "_Not recorded yet._"


TARGETS = {
    "native": "`.sw`, native library, x86-64",
    "onnxruntime": "ONNX in ONNX Runtime {onnxruntime}",
    "openvino": "ONNX in OpenVINO {openvino}",
    "wasm": "`.sw`, WebAssembly in Node {node}",
}


def _read(recorded: Path, name: str = "exports.json") -> JsonObject | None:
    path = recorded / name
    if not path.exists():
        return None
    record: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    return record


def _origin(record: JsonObject) -> str:
    return f"Counted {record['date'][:10]} by `benchmarks/exports.py`: [the record](../results/exports.json)."


def onnx(recorded: Path) -> str:
    """The block of ``docs/export-onnx.md``: bytes of the files."""
    record = _read(recorded)
    if record is None:
        return MISSING
    rows = tuple(
        (
            row["network"],
            f"{row['program']:,}",
            f"{row['packed']:,}",
            f"{row['float']:,}",
            f"{row['float'] / row['packed']:.1f}",
        )
        for row in record["onnx"]
    )
    headings = ("network", "`.sw`", "ONNX", "ONNX with float weights", "times smaller")
    return f"{Table(headings=headings, rows=rows, words=1).markdown()}\n\nBytes. {_origin(record)}"


def microcontrollers(recorded: Path) -> str:
    """The block of ``docs/microcontrollers.md``: sizes and errors, then instructions."""
    record = _read(recorded)
    if record is None:
        return MISSING
    networks = record["microcontrollers"]
    sizes = tuple(
        (
            row["network"],
            _percent(row.get("error")),
            _percent(row.get("integer_error")),
            f"{row['file']:,}",
            f"{row['weights']:,}",
            *(f"{_m4(row, optimize)['flash']:,}" for optimize in ("-Os", "-O2")),
            f"{row['arena']:,}",
            f"{_m4(row, '-O2')['stack']:,}",
        )
        for row in networks
    )
    flash = ("flash, `-Os`", "flash, `-O2`")
    headings = ("network", "error", "in integers", "`.sw` in integers", "weights", *flash, "arena", "stack")
    fast = [core["core"] for core in networks[0]["cores"] if core["optimize"] == "-O2"]
    counts = tuple(
        (
            row["network"],
            f"{row['multiply_adds'] / 1e6:.2f}",
            *(
                f"{core['instructions'] / 1e6:.2f} ({core['instructions'] / row['multiply_adds']:.2f})"
                for core in row["cores"]
                if core["optimize"] == "-O2"
            ),
            f"{_m4(row, '-Os')['instructions'] / 1e6:.2f}",
        )
        for row in networks
    )
    return "\n\n".join(
        [
            Table(headings=headings, rows=sizes, words=1).markdown(),
            "Bytes, compiled by gcc for a Cortex-M4; flash is all that the network takes, weights and code. "
            f"Errors on all {networks[0]['images']:,} test images, in integers by the saved and loaded `.sw` file.",
            Table(headings=("network", "multiply-adds", *fast, "cortex-m4, `-Os`"), rows=counts, words=1).markdown(),
            "Millions per image, with `-O2` unless the column says otherwise, and in parentheses instructions per "
            "multiply-add, pools and everything else included. " + _origin(record),
        ]
    )


def targets(recorded: Path) -> str:
    """The block of ``docs/export.md``: every target in one table."""
    timed, counted = _read(recorded, "targets.json"), _read(recorded)
    if timed is None or counted is None:
        return MISSING
    rows = []
    for network in counted["microcontrollers"]:
        name = network["network"]
        measured = [row for row in timed["targets"] if row["network"] == name]
        for row in measured:
            target = TARGETS[row["target"]].format(**timed["versions"], node=row.get("node"))
            speed = f"{row['milliseconds']:.3f} ms"
            rows.append((name, target, f"{row['bytes']:,}", speed, _percent(row["error"])))
        for core in network["cores"] if measured else ():
            if core["optimize"] == "-O2":
                speed = f"{core['instructions'] / 1e6:.2f} million instructions"
                error = _percent(network["integer_error"])
                rows.append((name, f"C on a {core['core'].title()}", f"{core['flash']:,}", speed, error))
    headings = ("network", "target", "bytes", "one image", "error")
    hardware = timed["hardware"]
    return (
        Table(headings=headings, rows=tuple(rows), words=2).markdown()
        + "\n\nBytes are those of the network's file, or of flash with all code; WebAssembly adds [the "
        "runtime](browser.md#size-and-outputs), which all networks of a page share. Errors on all test images. "
        f"Timed {timed['date'][:10]} with one thread on {hardware['processor']} by `benchmarks/targets.py` "
        "([the record](../results/targets.json)); instructions counted in an emulator by `benchmarks/exports.py` "
        "([the record](../results/exports.json))."
    )


def speed(recorded: Path, names: Sequence[str]) -> str:
    """The times of some targets beside the native library's: the block ``speed`` of a target's own page."""
    record = _read(recorded, "targets.json")
    if record is None:
        return MISSING
    rows = tuple(
        (row["network"], TARGETS[row["target"]].format(**record["versions"], node=row.get("node")),
         f"{row['milliseconds']:.3f}", _percent(row["error"]))
        for row in record["targets"]
        if row["target"] in ("native", *names)
    )  # fmt: skip
    return (
        Table(headings=("network", "engine", "ms per image", "error"), rows=rows, words=2).markdown()
        + f"\n\nOne thread, one image at a time, {record['hardware']['processor']}; errors on all test images. "
        f"Measured {record['date'][:10]} by `benchmarks/targets.py`: [the record](../results/targets.json)."
    )


def _percent(error: float | None) -> str:
    return "" if error is None else f"{error:.2f} %"


def _m4(row: JsonObject, optimize: str) -> JsonObject:
    found: JsonObject = next(
        core for core in row["cores"] if core["core"] == "cortex-m4" and core["optimize"] == optimize
    )
    return found
