"""What a run leaves behind, read back without PyTorch: its configuration and its records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from signwise.errors import FormatError, SignwiseError


def read_config(folder: Path) -> dict[str, Any]:
    """The ``config.json`` of a run.

    Raises:
        SignwiseError: the folder holds no run, or the file is not the record of one.
    """
    path = folder / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SignwiseError(f"{folder} holds no run: it has no config.json") from None
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is damaged ({error}); without it, the run resumes by its checkpoint") from error
    if not isinstance(config, dict) or not isinstance(config.get("recipe"), dict):
        raise FormatError(f"{path} is damaged: it has no recipe")
    return config


def recorded_data(config: Mapping[str, Any]) -> Path | None:
    """The data folder or file that a run was trained with, if it named one that still exists."""
    folder = config.get("options", {}).get("data")
    return Path(folder) if folder is not None and Path(folder).exists() else None


def read_records(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a ``.jsonl`` file, without a last line that a crash cut short."""
    if not path.exists():
        return []
    try:
        return [json.loads(line) for line in complete_lines(path)]
    except ValueError as error:
        raise FormatError(f"{path} has a line that is not JSON: {error}") from error


def complete_lines(path: Path) -> list[bytes]:
    """The lines of a file, without a last one that a crash cut short."""
    return path.read_bytes().split(b"\n")[:-1]


def schedule_corners(config: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """The corners of α and ζ over the steps, which are straight lines between them; empty with 32 bits.

    Args:
        config: a run's ``config.json``.

    Example:
        >>> settings = {"t_alpha": 0.5, "zeta_start": 1.0, "zeta_end": 12.0, "zeta_ramp": 0.1}
        >>> schedule_corners({"recipe": settings, "total_steps": 100})["alpha"]
        [(0, 0.0), (50.0, 1.0), (99, 1.0)]
    """
    recipe, total = config["recipe"], config["total_steps"]
    if recipe.get("t_alpha") is None:
        return {}
    rise, ramp = recipe["t_alpha"] * total, (1 - recipe["zeta_ramp"]) * total
    start, end = float(recipe["zeta_start"]), float(recipe["zeta_end"])
    alpha: list[tuple[float, float]] = [(0, 1.0), (total - 1, 1.0)]
    if rise > 0:
        top = min(1.0, (total - 1) / rise)  # a rise over all steps ends just below 1
        alpha = [(0, 0.0), (min(rise, total - 1), top), (total - 1, top)]
    return {
        "alpha": alpha,
        "zeta": [(0, start), (min(ramp, total - 1), start), (total - 1, end)],
    }
