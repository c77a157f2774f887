"""The records of ``benchmarks/inference.py``: one JSON file per processor in ``results/inference``.

Ratios between engines differ from one kind of processor to the next, so the record of one machine does not replace that
of another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signwise.reproduce.tables import network_title

JsonObject = dict[str, Any]
_TITLES = {
    "dense4096": "dense layer 4096 × 4096",
    "mobilenet_v2": "MobileNetV2",
    "unet": "U-Net",
    "token_step": "decoder's token step",
}


def read_records(results: Path) -> dict[Path, JsonObject]:
    """All records, the newest first, by their paths relative to the repository.

    Args:
        results: the repository's folder of results.
    """
    found = {
        path.relative_to(results.parent): json.loads(path.read_text(encoding="utf-8"))
        for path in (results / "inference").glob("*.json")
    }
    return dict(sorted(found.items(), key=lambda item: str(item[1]["date"]), reverse=True))


def title(network: str) -> str:
    """The display name of a measured network."""
    return _TITLES.get(network, network_title(network))


@dataclass(frozen=True, kw_only=True)
class Times:
    """Ours and the fastest peer at one setting, in seconds.

    Args:
        ours: best time of the packed file.
        peer: best time of the fastest other engine.
        engine: the title of that engine.
    """

    ours: float
    peer: float
    engine: str

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer we are."""
        return self.peer / self.ours


def engine_times(network: JsonObject, precision: str, batch: int, threads: int) -> Iterator[tuple[str, str, float]]:
    """Name, title and best time of every engine at one setting."""
    for row in network["rows"]:
        if row["precision"] == precision and row["engine"] != "numpy":
            for entry in row["times"]:
                if (entry["batch"], entry["threads"]) == (batch, threads):
                    yield row["engine"], row["title"], entry["best"]


def against_fastest_peer(network: JsonObject, precision: str, batch: int, threads: int = 1) -> Times | None:
    """The packed file and the fastest other engine, or ``None`` where one of them was not measured."""
    found = list(engine_times(network, precision, batch, threads))
    ours = [seconds for engine, _, seconds in found if engine == "signwise"]
    others = [(seconds, title) for engine, title, seconds in found if engine != "signwise"]
    if not ours or not others:
        return None
    peer, engine = min(others)
    return Times(ours=ours[0], peer=peer, engine=engine)


def settings(network: JsonObject) -> list[tuple[int, int]]:
    """The measured pairs of batch size and threads."""
    return [(entry["batch"], entry["threads"]) for entry in network["rows"][0]["times"]]


def packed_bytes(network: JsonObject) -> int:
    """The size of the packed file with float32 activations."""
    rows = [row for row in network["rows"] if (row["engine"], row["precision"]) == ("signwise", "float32")]
    return int(rows[0]["file_bytes"])
