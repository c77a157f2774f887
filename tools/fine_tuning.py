"""The block of ``docs/fine-tune.md``: how long a float network takes to become binary."""

from __future__ import annotations

import json
from pathlib import Path

from signwise.reproduce.tables import Table
from tools.inference_records import JsonObject

HEADINGS = ("recipe", "learns from", "epochs", "error", "float network")


def blocks(recorded: Path, missing: str) -> dict[str, str]:
    """The page's blocks by name, from the records in a folder; ``missing`` where there is none."""
    path = recorded / "fine-tuning.json"
    networks = json.loads(path.read_text(encoding="utf-8"))["networks"] if path.exists() else []
    return {"epochs": table(networks) if networks else missing}


def table(networks: list[JsonObject]) -> str:
    """One row per training, and the sentence that says where the figures come from."""
    rows = [
        (
            network["recipe"],
            "labels and teacher" if run["distill"] else "labels",
            str(run["epochs"]),
            f"{run['error']:.2f} %",
            f"{network['float_error']:.2f} %",
        )
        for network in networks
        for run in network["runs"]
    ]
    origins = sorted({f"{network['date'][:10]}, {network['hardware']['processor']}" for network in networks})
    text = Table(headings=HEADINGS, rows=tuple(rows), words=2).markdown()
    return f"{text}\n\n{'; '.join(origins)}: [the record](../results/fine-tuning.json)."
