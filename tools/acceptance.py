"""The block of ``docs/acceptance.md``: models from other packages, and what works with each."""

from __future__ import annotations

import json
from pathlib import Path

from signwise.reproduce.tables import Table
from tools.inference_records import JsonObject

HEADINGS = ("model", "binary", "SGDW: first → last loss", "AdamW", "packed", "compile", "failures")


def blocks(recorded: Path) -> dict[str, str]:
    """The page's blocks by name, from the records in a folder."""
    path = recorded / "acceptance.json"
    return {"models": models(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else "_Not recorded yet._"}


def models(record: JsonObject) -> str:
    """One row per model, and a line that counts them."""
    found: dict[str, JsonObject] = record["models"]
    rows = tuple(_row(name, entry) for name, entry in found.items())
    table = Table(headings=HEADINGS, rows=rows, words=len(HEADINGS)).markdown()
    packages = [f"{name} {version}" for name, version in record["versions"].items() if name not in ("python", "numpy")]
    failing = sum(bool(entry["failures"]) for entry in found.values())
    return (
        f"{len(found)} models, {len(found) - failing} without a failure.\n\n{table}\n\n{_refusals(found)}"
        f"{record['date'][:10]}, {', '.join(packages)}: [the record](../results/acceptance.json)."
    )


def _refusals(found: dict[str, JsonObject]) -> str:
    """Why `compile` refuses models, each reason with the models that it concerns."""
    reasons: dict[str, list[str]] = {}
    for name, entry in found.items():
        if (entry.get("compile") or "").startswith("refused: "):
            reasons.setdefault(entry["compile"].removeprefix("refused: "), []).append(name)
    if not reasons:
        return ""
    lines = [f"- {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    return "What `compile` says where it refuses:\n\n" + "\n".join(lines) + "\n\n"


def _row(name: str, entry: JsonObject) -> tuple[str, ...]:
    share = f"{100 * entry['binary'] / entry['weights']:.0f} %" if "binary" in entry else "–"
    packed = entry.get("packed_difference")
    failures = "; ".join(f"{step}: {text.splitlines()[0][:90]}" for step, text in entry["failures"].items())
    return (
        name,
        share,
        _losses(entry, "SGDW"),
        _losses(entry, "AdamW"),
        "–" if packed is None else f"{packed:.0e}" + _rounding(entry),
        "–" if not entry.get("compile") else entry["compile"].split(":")[0],
        failures.replace("|", "/") or "none",
    )


def _rounding(entry: JsonObject) -> str:
    """What rounding alone does to the outputs, where packing changes more than the last digits."""
    worth_showing = entry["packed_difference"] > 1e-5 and "rounding" in entry
    return f" (rounding {entry['rounding']:.0e})" if worth_showing else ""


def _losses(entry: JsonObject, optimizer: str) -> str:
    if optimizer not in entry:
        return "–"
    shown = _arrow(entry[optimizer])
    others = {name: entry.get(f"{optimizer}, {name}") for name in ("slower", "float")}
    if others["float"] is None:
        return shown
    return f"{shown} ({', '.join(f'{name} {_arrow(losses)}' for name, losses in others.items() if losses)})"


def _arrow(losses: list[float]) -> str:
    return " → ".join(f"{loss:.3g}" for loss in losses)
