"""The blocks of ``docs/reliability.md``: what was broken on purpose, how often, and what held."""

from __future__ import annotations

import json
from pathlib import Path

from signwise.reproduce.tables import Table
from tools.inference_records import JsonObject

HEADINGS = ("what", "how often", "result")


def blocks(recorded: Path) -> dict[str, str]:
    """The page's blocks by name, from the records in a folder."""
    return {
        "kills": kills(_read(recorded / "reliability.json")),
        "runtime": runtime(_read(recorded / "reliability-native.json")),
    }


def kills(record: JsonObject) -> str:
    """Trainings that were killed, checkpoints whose system calls failed."""
    rows = []
    if (found := record.get("kills")) is not None:
        rows.append(("SIGKILL at a random moment, a checkpoint after each step", *_kills(found)))
    if (found := record.get("faults")) is not None:
        rows.append(
            (
                "SIGKILL, ENOSPC, EIO or EMFILE at a system call of a checkpoint",
                f"{found['faults']} faults at {found['system_calls']} calls",
                f"{found['readable']} of {found['faults']} leave the old or the new checkpoint readable; "
                f"{found['next_write_succeeds']} of {found['faults']} next writes succeed",
            )
        )
    if (found := record.get("torchrun")) is not None:
        rows.append(("SIGKILL of one of two processes under `torchrun`", *_kills(found)))
    origins = [record[name] for name in ("kills", "faults", "torchrun") if name in record]
    return _page(rows, origins, "reliability.json")


def _kills(found: JsonObject) -> tuple[str, str]:
    runs = "1 run" if found["runs"] == 1 else f"{found['runs']} runs"
    end = "ends" if found["runs"] == 1 else "end"
    return f"{found['kills']} kills in {runs}", f"{found['identical']} of {runs} {end} bit-identical"


def runtime(record: JsonObject) -> str:
    """Damaged files, threads under ThreadSanitizer, memory over many calls, memory that runs out."""
    parts = record.get("parts", {})
    rows = []
    if (found := parts.get("fuzz")) is not None:
        by_revision = [f"{count:,} at {revision[:7]}" for revision, count in found.get("revisions", {}).items()]
        rows.append(
            (
                "damaged files, with AddressSanitizer and UBSan",
                f"{found['files']:,} files" + (f": {', '.join(by_revision)}" if len(by_revision) > 1 else ""),
                f"{found['loaded']:,} loaded and {found['run']:,} small enough of them run, "
                f"{found['refused']:,} refused, no crash",
            )
        )
    if (found := parts.get("threads")) is not None:
        sets = [value for value in found.values() if isinstance(value, dict)]
        runs, wrong = sum(entry["runs"] for entry in sets), sum(entry["wrong"] for entry in sets)
        rows.append(
            (
                f"{found['callers']} threads that make, run and free programs, with ThreadSanitizer",
                f"{runs:,} runs on {len(sets)} instruction sets",
                f"{found['reports']} reports, {wrong} wrong outputs",
            )
        )
    if (found := parts.get("calls")) is not None:
        slope = round(found["bytes_per_call"], 3) + 0.0  # no negative zero
        rows.append(
            (
                f"memory of a process that runs {found['programs']} programs with every operation in turn",
                f"{found['calls']:,} calls",
                f"{found['growth_bytes']:,} bytes more in all, {slope:g} per call",
            )
        )
    if (found := parts.get("exhaustion")) is not None:
        rows.append(
            (
                f"memory runs out, with {found['least_kib']} to {found['most_kib']:,} KiB left",
                f"{found['processes']} processes",
                f"{found['answered']} compute, {found['raised']} raise an error and work afterwards, "
                f"{found['failed']} fail",
            )
        )
    return _page(rows, [record] if record else [], "reliability-native.json")


def _page(rows: list[tuple[str, str, str]], origins: list[JsonObject], name: str) -> str:
    where = sorted({f"{origin['date'][:10]}, {origin['hardware']['processor']}" for origin in origins})
    table = Table(headings=HEADINGS, rows=tuple(rows), words=len(HEADINGS)).markdown()
    return f"{table}\n\n{'; '.join(where)}: [the record](../results/{name})."


def _read(path: Path) -> JsonObject:
    record: JsonObject = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return record
