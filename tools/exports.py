"""The tables of exported networks, from ``results/exports.json``."""

from __future__ import annotations

import json
from pathlib import Path

from signwise.reproduce.tables import Table
from tools.inference_records import JsonObject

MISSING = "_Not recorded yet._"


def _read(recorded: Path) -> JsonObject | None:
    path = recorded / "exports.json"
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
            f"{row['weights']:,}",
            *(f"{_m4(row, optimize)['flash']:,}" for optimize in ("-Os", "-O2")),
            f"{row['arena']:,}",
            f"{_m4(row, '-O2')['stack']:,}",
        )
        for row in networks
    )
    headings = ("network", "error", "in integers", "weights", "flash, `-Os`", "flash, `-O2`", "arena", "stack")
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
            f"Errors on all {networks[0]['images']:,} test images.",
            Table(headings=("network", "multiply-adds", *fast, "cortex-m4, `-Os`"), rows=counts, words=1).markdown(),
            "Millions per image, with `-O2` unless the column says otherwise, and in parentheses instructions per "
            "multiply-add, pools and everything else included. " + _origin(record),
        ]
    )


def _percent(error: float | None) -> str:
    return "" if error is None else f"{error:.2f} %"


def _m4(row: JsonObject, optimize: str) -> JsonObject:
    found: JsonObject = next(
        core for core in row["cores"] if core["core"] == "cortex-m4" and core["optimize"] == optimize
    )
    return found
