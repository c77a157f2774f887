"""One of the two trainings, in a process of its own: ``python -m signwise.quickstart.trainee``.

It takes its settings as JSON from the command line and tells what happens as JSON lines on standard output, so that
the parent can show both trainings in one display.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError
from signwise.training.monitor import Reading
from signwise.training.options import Options
from signwise.training.recipe import Recipe

_SECONDS_BETWEEN_READINGS = 0.5


class JsonMonitor:
    """Sends what happens to the parent process, one JSON object a line."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        return None

    def due(self) -> bool:
        return time.monotonic() - self._last >= _SECONDS_BETWEEN_READINGS

    def show(self, reading: Reading) -> None:
        self._last = time.monotonic()
        tell(reading=dataclasses.asdict(reading))

    def epoch(self, row: dict[str, Any], is_best: bool, seconds_left: float) -> None:
        tell(epoch=row, seconds_left=seconds_left)

    def close(self) -> None:
        return None


def tell(**message: Any) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Train; the exit code is 0, 2 after a mistake that was told, or 128 + the signal that stopped it."""
    settings = json.loads(arguments[0])
    try:
        from signwise.training.run import train

        recipe = Recipe.from_json(settings["recipe"])
        options = Options(
            out=Path(settings["out"]),
            data=None if settings["data"] is None else Path(settings["data"]),
            resume=True,
            threads=settings["threads"],
            tensorboard=False,
        )
        outcome = train(recipe, options, JsonMonitor())
    except SignwiseError as error:
        tell(error=str(error))
        return 2
    except BrokenPipeError:
        # The parent is gone, and with it whoever could be told; the last checkpoint stays. Python would complain once
        # more when it flushes at exit, so there must be something to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0 if outcome.signal is None else 128 + outcome.signal


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
