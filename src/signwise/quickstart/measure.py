"""What a packed file takes and gives, measured without PyTorch: ``python -m signwise.quickstart.measure FILE ...``.

For each file one JSON line: its bytes, its error on the whole test set, and the time of one image on one thread.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from signwise import datasets, runtime

_SECONDS = 1.0
_BATCH = 100


def best_microseconds(call: Callable[[], object], seconds: float = _SECONDS) -> float:
    """The time of the quickest call within ``seconds``, after a warm-up: other programs only ever add to it."""
    for _ in range(3):
        call()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best


def measure(path: Path, data: Path | None = None) -> dict[str, Any]:
    """Bytes on disk, error in percent, and microseconds an image of one packed file."""
    model = runtime.load(path, threads=1)
    images = datasets.load(model.program.about["dataset"], data)
    wrong = 0
    for start in range(0, len(images.test_images), _BATCH):
        batch = images.test_images[start : start + _BATCH].astype(np.float32)
        wrong += int((model(batch).argmax(1) != images.test_labels[start : start + _BATCH]).sum())
    one = images.test_images[:1].astype(np.float32)
    return {
        "bytes": path.stat().st_size,
        "error": 100 * wrong / len(images.test_images),
        "microseconds": best_microseconds(lambda: model(one)),
        "torch": "torch" in sys.modules,
    }


def main(arguments: list[str]) -> int:
    """Measure every file that is named; a first argument ``--data FOLDER`` says where the data set is."""
    data = None
    if arguments[:1] == ["--data"]:
        data, arguments = Path(arguments[1]), arguments[2:]
    for name in arguments:
        sys.stdout.write(json.dumps(measure(Path(name), data)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
