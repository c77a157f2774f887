"""A run's network as a packed file on this machine: its bytes, and the time of one image."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

from signwise.bench.network import listed, random_input
from signwise.bench.timing import best_seconds
from signwise.runtime import native
from signwise.training.deploy import program_of_run
from signwise.training.run_folder import load_run


@dataclass(frozen=True, kw_only=True)
class PackedRun:
    """The measurements of one run.

    Args:
        size: bytes of the file that ``signwise compile`` writes, its test error aside.
        float32_bytes: bytes of its tensors if every weight were a float32.
        seconds: time of one image on one thread, or ``None`` without the native library.
    """

    size: int
    float32_bytes: int
    seconds: float | None


def measure_run(folder: Path, *, seconds: float = 1.0) -> PackedRun:
    """Compile the best weights of a run and time one image on one thread; nothing is written.

    Args:
        folder: the run's folder.
        seconds: how long to repeat the image; the fastest time counts.

    Raises:
        SignwiseError: the run has no weights yet, or its model does not compile.
    """
    with warnings.catch_warnings():
        # Size and time are the same before the end of the schedule, and a report is made to look at unfinished runs.
        warnings.filterwarnings("ignore", "compile: α is below 1", UserWarning)
        program = program_of_run(load_run(folder), "best")
    time = None
    if native.library() is not None:
        session, images = program.session(threads=1), listed(random_input(program, 1))
        time = best_seconds(lambda: session(*images), seconds=seconds)
    return PackedRun(size=len(program.encode()), float32_bytes=program.float32_bytes, seconds=time)
