"""Records: what a finished run leaves for the tables and figures, as small JSON files.

    {"kind": "training", "version": 1, "recipe": ..., "network": ..., "result": ..., "curves": ..., "state": ...,
     "origin": ...}

Errors are in percent and belong to the deployed weights sign(φ), unless they are called relaxed. Curves have one number
per epoch; the state is a thinned-out history of one layer.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from signwise.atomic import atomic_write
from signwise.errors import FormatError, SignwiseError
from signwise.reproduce.experiments import run_name
from signwise.training.evaluate import network_cost
from signwise.training.recipe import Recipe
from signwise.training.run_folder import read_config, read_records

KIND, VERSION = "training", 1
ABSENT = "–"
"""What a table shows where there is no number."""

# The curves that the figures use, with their number of decimals.
_CURVES = {
    "error": 4,
    "relaxed_error": 4,
    "train_error": 3,
    "train_loss": 5,
    "alpha": 4,
    "zeta": 3,
    "learning_rate": 8,
    "degenerate_groups": 0,
}
_STATES = 61
# Private to the machine, or irrelevant to the result.
_PRIVATE_OPTIONS = ("data", "checkpoint_minutes", "relaxed_every", "tensorboard", "watch")
_ATTEMPT = ("started", "processes", "threads", "versions", "hardware", "revision")


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
        seconds: time of the run over all attempts, evaluations included.
        seconds_per_step: time of one training step, median over the epochs.
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
        network: its size: ``parameters``, ``binary_weights``, ``macs`` per image.
        total_steps: training steps.
        result: how it ended.
        curves: one number per epoch, by name: ``error``, ``relaxed_error``, ``train_loss`` and others.
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
        """The file's text: one line per entry, so that a diff is readable."""
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
    """Write a record into a folder under the name of its run; returns its path."""
    path = folder / f"{record.name}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(record.to_json().encode())
    except OSError as error:
        raise SignwiseError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def read_training_records(folder: Path) -> list[Record]:
    """The training records in a folder, sorted by name; other JSON files are skipped.

    Raises:
        FormatError: a file is not JSON, or a record is damaged.
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


def record_run(folder: Path) -> Record:
    """Make the record of a finished run.

    Args:
        folder: the run's folder.

    Raises:
        SignwiseError: the run has not finished, or its folder is damaged.
    """
    config, rows = read_config(folder), read_records(folder / "metrics.jsonl")
    recipe = Recipe.from_json(config["recipe"])
    if "finished" not in config or not rows:
        raise SignwiseError(
            f"the run in {folder} has not finished ({len(rows)} of {recipe.epochs} epochs): "
            f"continue it with signwise train {recipe.name} --out {folder} --resume"
        )
    cost = network_cost(recipe)
    start = _start(config, recipe)
    return Record(
        recipe=recipe if start is None else dataclasses.replace(recipe, init_from=start["network"]),
        network={"parameters": cost.parameters, "binary_weights": cost.binary_weights, "macs": cost.macs},
        total_steps=config["total_steps"],
        result=_result(config, recipe, rows),
        curves={name: [_rounded(row[name], digits) for row in rows] for name, digits in _CURVES.items()},
        state=_thinned_state(read_records(folder / "state.jsonl")),
        origin=_origin(config) | ({} if start is None else {"start": start}),
    )


def _start(config: dict[str, Any], recipe: Recipe) -> dict[str, str] | None:
    """The network that a run started from, by recipe and bits instead of by a path of this machine, and its hash.

    The name is without a seed, so that runs with seeds of their own from networks with the same seeds are one row.
    """
    if "pretrained" not in config:
        return None
    path, sha256 = Path(config["pretrained"]["path"]), config["pretrained"]["sha256"]
    try:
        network = Recipe.from_json(read_config(path.parent)["recipe"])
    except SignwiseError:  # a file on its own, of no run
        return {"network": path.stem.removesuffix(f"-{recipe.seed}"), "sha256": sha256}
    return {"network": f"{network.name}-{network.bits}bit", "sha256": sha256}


def _result(config: dict[str, Any], recipe: Recipe, rows: list[dict[str, Any]]) -> Result:
    result = config["result"]
    batch = min(recipe.batch_size, recipe.train_samples or recipe.batch_size)
    return Result(
        best_error=round(result["best_error"], 4),
        best_epoch=result["best_epoch"],
        last_error=round(result["last_error"], 4),
        last_relaxed_error=_rounded(rows[-1]["relaxed_error"], 4),
        first_train_loss=round(rows[0]["train_loss"], 5),
        last_train_loss=round(rows[-1]["train_loss"], 5),
        seconds=round(result["seconds"], 1),
        seconds_per_step=round(statistics.median(batch / row["images_per_second"] for row in rows), 5),
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits) if digits else int(value)


def _thinned_state(states: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most ``_STATES`` rows of the first watched layer, evenly spaced, the first and the last included."""
    rows = [row for row in states if row["layer"] == states[0]["layer"]]
    last = len(rows) - 1
    if last >= _STATES:
        rows = [rows[round(index * last / (_STATES - 1))] for index in range(_STATES)]
    return [_short_floats(row) for row in rows]


def _short_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short_floats(part) for key, part in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _origin(config: dict[str, Any]) -> dict[str, Any]:
    origin = {name: config[name] for name in _ATTEMPT} | {"finished": config["finished"]}
    options = {name: value for name, value in config["options"].items() if name not in _PRIVATE_OPTIONS}
    resumed = [
        {"step": attempt["step"]} | {name: attempt[name] for name in _ATTEMPT} for attempt in config.get("resumed", [])
    ]
    return origin | {"options": options, "resumed": resumed}


def mean_and_spread(values: Sequence[float]) -> str:
    """The mean with two decimals, and the standard deviation if there are several values.

    Example:
        >>> mean_and_spread([0.5, 0.6]), mean_and_spread([0.5])
        ('0.55 ± 0.07', '0.50')
    """
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{spread}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Repeated:
    """The runs of one recipe that differ in their seed alone.

    Args:
        recipe: the recipe, with seed 0.
        records: one record per seed; at least one.
    """

    recipe: Recipe
    records: Sequence[Record]

    @property
    def seeds(self) -> int:
        return len(self.records)

    def mean(self, name: str) -> float:
        """The mean over the seeds of a number in :class:`Result`, such as ``best_error``."""
        return statistics.fmean(getattr(record.result, name) for record in self.records)

    def text(self, name: str) -> str:
        """The mean with two decimals, and the standard deviation if there are several seeds."""
        values = [getattr(record.result, name) for record in self.records]
        if any(value is None for value in values):
            return ABSENT
        return mean_and_spread(values)


def by_recipe(records: Iterable[Record]) -> dict[Recipe, Repeated]:
    """Group the records that differ in their seed alone, in the order of their first."""
    found: dict[Recipe, list[Record]] = {}
    for record in records:
        found.setdefault(dataclasses.replace(record.recipe, seed=0), []).append(record)
    return {recipe: Repeated(recipe=recipe, records=runs) for recipe, runs in found.items()}


def short_revision(revision: str | None) -> str:
    """A revision in ten letters, with a plus if the source was modified.

    Example:
        >>> short_revision("b423f329aa70cc11"), short_revision("b423f329aa70cc11+changes")
        ('`b423f329aa`', '`b423f329aa+`')
    """
    return ABSENT if revision is None else f"`{revision[:10]}{'+' if revision.endswith('+changes') else ''}`"


def difference(ours: float, theirs: float) -> str:
    """Our error minus the paper's, in percentage points, with its sign."""
    return f"{ours - theirs:+.2f}"
