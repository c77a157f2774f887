"""From a finished run's folder to its record."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError
from signwise.reproduce.record import Record, Result
from signwise.training.cost import network_cost
from signwise.training.recipe import Recipe
from signwise.training.run_folder import read_config, read_records

# Curves that the figures use, with the digits that are kept.
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
# Where data lies on a machine is nobody's business; the rest tells how the run was carried out.
_PRIVATE_OPTIONS = ("data", "checkpoint_minutes", "tensorboard", "watch")
_ATTEMPT = ("started", "processes", "threads", "versions", "hardware", "revision")


def record_run(folder: Path) -> Record:
    """Make the record of a finished run.

    Args:
        folder: the folder that ``signwise train`` wrote.

    Returns:
        The record, ready to be written into the folder of results.

    Raises:
        SignwiseError: the run has not finished, or its folder is damaged.
    """
    config, rows = read_config(folder), read_records(folder / "metrics.jsonl")
    recipe = Recipe.from_json(config["recipe"])
    if "finished" not in config or not rows:
        raise SignwiseError(
            f"the run in {folder} has not finished ({len(rows)} of {recipe.epochs} epochs): "
            f"go on with signwise train {recipe.name} --out {folder} --resume"
        )
    cost = network_cost(recipe)
    return Record(
        recipe=recipe,
        network={"parameters": cost.parameters, "binary_weights": cost.binary_weights, "macs": cost.macs},
        total_steps=config["total_steps"],
        result=_result(config, recipe, rows),
        curves={name: [_rounded(row[name], digits) for row in rows] for name, digits in _CURVES.items()},
        state=_thinned_state(read_records(folder / "state.jsonl")),
        origin=_origin(config),
    )


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
    """Rows of the first watched layer, at most `_STATES`, evenly spaced, from the first to the last."""
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
