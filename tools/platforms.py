"""The blocks of ``docs/install.md`` and ``docs/browser.md``: where signwise runs, and what it weighs there."""

from __future__ import annotations

import json
import re
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
    """The wheels: tag and size, and what ran where."""
    path = recorded / "wheels.json"
    if not path.exists():
        return MISSING
    record: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    rows = tuple(
        (
            NAMES[row["platform"]],
            f"`{row['tags'][0]}`",
            _native_tests(row["kernel_test"]),
            "; ".join(map(_system, row["installed"])) or _loaded(row),
            "; ".join(_tests(use["tests"]) for use in row["installed"] if "tests" in use) or "no",
            f"{row['bytes'] / 1e6:.1f} MB",
        )
        for row in record["wheels"]
    )
    headings = ("platform", "tag", "native tests", "installed by pip and used", "Python tests of the runtime", "size")
    text = (
        Table(headings=headings, rows=rows, words=5).markdown()
        + f"\n\nBuilt and tried {record['date'][:10]} with zig {record['versions'].get('ziglang', '?')} by "
        "`make wheels`: [the record](../results/wheels.json). The native tests (`kernel_test`) compare random programs "
        "with plain loops on each instruction set in the table. The Python tests are those of `tests/runtime`, slow "
        "ones aside. auditwheel confirms the tags of the Linux wheels."
    )
    if files := [row["macho"] for row in record["wheels"] if "macho" in row]:
        oldest = ", ".join(f"{file['oldest_system']} for {file['processor']}" for file in files)
        text += (
            f" **The wheels for macOS never ran**, for want of a Mac. By their files, they load from macOS {oldest} "
            f"on and need the system's own library alone; they export the {files[0]['exports']} functions of the header"
        )
        signed = " and ".join(file["processor"] for file in files if file["signed_pages"])
        text += f". The signature for {signed} fits the file." if signed else "."
    return text


def _native_tests(test: JsonObject | None) -> str:
    if test is None:
        return "**untested**"
    return ", ".join(test["isas"]) + (f", in {test['emulator']}" if "emulator" in test else "")


def _tests(summary: str) -> str:
    """The last line of pytest without the tests that were left out and the seconds."""
    return ", ".join(re.findall(r"\d+ (?:passed|skipped|failed)", summary))


def _loaded(row: JsonObject) -> str:
    return f"no; the library loads in {row['loaded']['emulator']}" if row.get("loaded") else "no"


def _system(use: JsonObject) -> str:
    emulated = " in qemu" if use.get("emulated") else ""
    system = f"{use['system']}, {use['libc']}" if "system" in use else use["libc"]
    return f"{system}, Python {use['python']}{emulated}: {use['isa']}, {use['right_of_1000']:,} of 1,000 digits right"


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
