"""The blocks of ``docs/install.md`` and ``docs/browser.md``: where signwise runs, and what it weighs there."""

from __future__ import annotations

import json
from pathlib import Path

from signwise.reproduce.tables import Table
from tools.inference_records import JsonObject

MISSING = "_Not recorded yet._"
NAMES = {
    "manylinux-x86_64": "Linux, x86-64",
    "manylinux-aarch64": "Linux, 64-bit ARM",
    "musllinux-x86_64": "Linux with musl (Alpine), x86-64",
    "musllinux-aarch64": "Linux with musl (Alpine), 64-bit ARM",
    "macos-arm64": "macOS, Apple silicon",
    "macos-x86_64": "macOS, Intel",
    "windows-amd64": "Windows, x86-64",
}


def wheels(recorded: Path) -> str:
    """The wheels: size, what they need, and whether they ran."""
    path = recorded / "wheels.json"
    if not path.exists():
        return MISSING
    record: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    rows = tuple(
        (
            NAMES[row["platform"]],
            f"`{row['tags'][0]}`",
            f"{row['bytes'] / 1e6:.1f} MB",
            f"{row['library_bytes'] / 1e6:.1f} MB",
            _tested(row),
        )
        for row in record["wheels"]
    )
    headings = ("platform", "tag", "wheel", "library in it", "what ran")
    return (
        Table(headings=headings, rows=rows, words=2).markdown()
        + f"\n\nBuilt {record['date'][:10]} with zig {record['versions'].get('ziglang', '?')} by `make wheels`; "
        "the tags of the Linux wheels are those that auditwheel finds. [The record](../results/wheels.json)."
    )


def _tested(row: JsonObject) -> str:
    ran = [row["tested"]] if row["tested"] else []
    if (installed := row.get("installed")) is not None:
        where = f" in {installed['emulator']}" if "emulator" in installed else ""
        ran.append(
            f"installed by pip in Python {installed['python']}{where}: {installed['isa']}, "
            f"{installed['right_of_1000']:,} of 1,000 digits right"
        )
    if (older := row.get("older_system")) is not None:
        ran.append(f"the library and kernel_test on {older['system']}, {older['libc']}")
    return "; ".join(ran) or "untested: built only"


def browser(recorded: Path) -> str:
    """The runtime for browsers: bytes as stored and as sent, images compared, and times where they were measured."""
    path = recorded / "web.json"
    if not path.exists():
        return MISSING
    record: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    rows = tuple((f"`{name}`", f"{size['bytes']:,}", f"{size['gzip']:,}") for name, size in record["files"].items())
    total = ("together", *(f"{sum(size[kind] for size in record['files'].values()):,}" for kind in ("bytes", "gzip")))
    compared = record["compared"]
    text = (
        Table(headings=("file", "bytes", "gzip"), rows=(*rows, total), words=1).markdown()
        + f"\n\n{compared['same_class']:,} of {compared['images']:,} MNIST test images get the class that the native "
        f"library gives them; the largest difference between two scores is {compared['largest_difference']:.1e}."
    )
    if (timed := record.get("timed")) is not None:
        text += f" One image takes {timed['milliseconds']:.2f} ms in Node {timed['node']}."
    return text + f" Measured {record['date'][:10]} by `benchmarks/web.py`: [the record](../results/web.json)."
