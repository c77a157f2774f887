"""A packed file on its own: bytes, test error and time per image, in a process that cannot import PyTorch."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from signwise import datasets
from signwise.bench.timing import best_seconds
from signwise.program import load
from signwise.program.evaluate import error_rate


@dataclass(frozen=True, kw_only=True)
class PackedFile:
    """The measurements of one file.

    Args:
        size: bytes on disk.
        error: error on the whole test set, in percent.
        seconds: time of one image on one thread.
    """

    size: int
    error: float
    seconds: float


def measure_without_torch(paths: Sequence[Path], data: Path | None = None) -> list[PackedFile]:
    """Measure packed files in a fresh process where ``import torch`` fails.

    Args:
        paths: the files; each names its data set, as ``signwise compile`` writes it.
        data: folder with the data set, or ``None`` for the cache.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_block_torch) as pool:
        return list(pool.map(measure_packed, paths, [data] * len(paths)))


def measure_packed(path: Path, data: Path | None = None) -> PackedFile:
    """Measure one packed file in this process."""
    session = load(path, threads=1)
    images = datasets.load(session.program.about["dataset"], data)
    one = images.test_images[:1].astype(np.float32)
    return PackedFile(
        size=path.stat().st_size,
        error=100 * error_rate(session, images.test_images, images.test_labels),
        seconds=best_seconds(lambda: session(one)),
    )


def _block_torch() -> None:
    # A module that is None in sys.modules cannot be imported: whoever tries gets an ImportError.
    sys.modules["torch"] = None  # type: ignore[assignment]
