"""Measured times of training steps, remembered in the folder of runs: they are taken once on a machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from signwise.atomic import atomic_write
from signwise.provenance import processor
from signwise.reproduce.launch import Slot
from signwise.training.recipe import Recipe

_FILE = "step-times.json"


def remembered(
    folder: Path, slot: Slot, measure: Callable[[Recipe], float], say: Callable[[str], None]
) -> Callable[[Recipe], float]:
    """A function that measures the seconds an image of a recipe takes in training, or knows them from before.

    Args:
        folder: the folder of runs, where the times are kept.
        slot: the device and threads that they hold for.
        measure: measures them.
        say: is told what is measured, for it may take seconds.
    """
    path = folder / _FILE

    def seconds_per_image(recipe: Recipe) -> float:
        key = f"{recipe.name}, {recipe.bits} bit, {processor()}, {slot.device}, {slot.threads or 'all'} threads"
        known = _read(path)
        if key not in known:
            say(f"measuring a training step of {recipe.name}, {recipe.bits} bit")
            known[key] = measure(recipe)
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write((json.dumps(known, indent=1) + "\n").encode())
        return known[key]

    return seconds_per_image


def _read(path: Path) -> dict[str, float]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # It is only a memory: without it, or with a damaged one, everything is measured anew.
        return {}
    return {str(key): float(value) for key, value in known.items()} if isinstance(known, dict) else {}
