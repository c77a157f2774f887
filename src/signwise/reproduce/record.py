"""A record: what a finished run leaves for the tables and figures, as a small JSON file, free of PyTorch.

    {"kind": "training", "version": 1, "recipe": ..., "network": ..., "result": ..., "curves": ..., "state": ...,
     "origin": ...}

Errors are in percent, and of sign(φ), what is deployed, unless they are called relaxed. The curves have one number an
epoch; the state has a thinned-out history of one layer.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from signwise.atomic import atomic_write
from signwise.errors import FormatError, SignwiseError
from signwise.reproduce.naming import run_name
from signwise.training.recipe import Recipe

KIND, VERSION = "training", 1


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a run ended.

    Args:
        best_error: lowest error during training, as the paper counts.
        best_epoch: the epoch of the lowest error, from 1.
        last_error: error after the last step.
        last_relaxed_error: the same with the relaxed weights w_α; ``None`` with 32 bits.
        first_train_loss: mean loss of the first epoch.
        last_train_loss: mean loss of the last epoch.
        seconds: time that the run took, over all attempts, its evaluations included.
        seconds_per_step: time of one training step, the median over the epochs.
    """

    best_error: float
    best_epoch: int
    last_error: float
    last_relaxed_error: float | None
    first_train_loss: float
    last_train_loss: float
    seconds: float
    seconds_per_step: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """A finished run.

    Args:
        recipe: what was trained.
        network: its size: ``parameters``, ``binary_weights``, ``macs`` an image.
        total_steps: steps in all.
        result: how it ended.
        curves: lists with one number an epoch, by name: ``error``, ``relaxed_error``, ``train_loss`` and others.
        state: rows of the run's ``state.jsonl``, thinned out; empty with 32 bits.
        origin: dates, versions, hardware, revision and options.
    """

    recipe: Recipe
    network: dict[str, int]
    total_steps: int
    result: Result
    curves: dict[str, list[float | None]]
    state: list[dict[str, Any]]
    origin: dict[str, Any]

    @property
    def name(self) -> str:
        return run_name(self.recipe)

    def to_json(self) -> str:
        """The file's text: one line for each entry, so that versions of it can be compared by eye."""
        document = {
            "kind": KIND,
            "version": VERSION,
            "recipe": self.recipe.to_json(),
            "network": self.network,
            "total_steps": self.total_steps,
            "result": asdict(self.result),
            "origin": self.origin,
            "curves": self.curves,
            "state": self.state,
        }
        lines = [f" {json.dumps(key)}: {_entry(value)}" for key, value in document.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Record:
        """Read what :meth:`to_json` wrote."""
        if document.get("version") != VERSION:
            raise FormatError(f"the record has version {document.get('version')}; this signwise reads {VERSION}")
        try:
            return cls(
                recipe=Recipe.from_json(document["recipe"]),
                network=document["network"],
                total_steps=document["total_steps"],
                result=Result(**document["result"]),
                curves=document["curves"],
                state=document["state"],
                origin=document["origin"],
            )
        except (KeyError, TypeError) as error:
            raise FormatError(f"the record is incomplete: {error}") from None


def _entry(value: Any) -> str:
    if isinstance(value, dict) and any(isinstance(part, (list, dict)) for part in value.values()):
        lines = [f"  {json.dumps(key)}: {_compact(part)}" for key, part in value.items()]
        return "{\n" + ",\n".join(lines) + "\n }"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"  {_compact(part)}" for part in value) + "\n ]"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def write_record(record: Record, folder: Path) -> Path:
    """Write a record into the folder of results, under the name of its run; returns its path."""
    path = folder / f"{record.name}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(record.to_json().encode())
    except OSError as error:
        raise SignwiseError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def read_all(folder: Path) -> list[Record]:
    """The records of trainings in a folder, by name; records of another kind are passed over.

    Raises:
        FormatError: a file is not JSON, or is a damaged record.
    """
    records = [record for path in sorted(folder.glob("*.json")) if (record := _read(path)) is not None]
    return sorted(records, key=lambda record: record.name)


def _read(path: Path) -> Record | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        is_ours = isinstance(document, dict) and document.get("kind") == KIND
        return Record.from_json(document) if is_ours else None
    except (FormatError, ValueError) as error:
        raise FormatError(f"{path}: {error}") from None
