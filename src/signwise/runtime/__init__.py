"""Programs made ready to run: numpy and the native kernels alone, never PyTorch."""

from __future__ import annotations

from os import PathLike

from signwise.program import file
from signwise.program.program import Program
from signwise.runtime.session import Session

__all__ = ["Program", "Session", "load"]


def load(path: str | PathLike[str], threads: int | None = None) -> Session:
    """Read a ``.sw`` file and make it ready to run; everything is checked before anything runs.

    Args:
        path: the file.
        threads: how many threads a call may use; ``None`` means ``SIGNWISE_THREADS``, or all cores.

    Returns:
        A function from numpy arrays to numpy arrays: ``load("net.sw")(images)``.
    """
    return Session(file.load(path), threads)
