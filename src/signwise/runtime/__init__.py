"""Programs and how to run them: numpy and the native kernels alone, never PyTorch."""

from __future__ import annotations

from os import PathLike

from signwise.runtime import file
from signwise.runtime.executor import Model
from signwise.runtime.program import Program

__all__ = ["Model", "Program", "load"]


def load(path: str | PathLike[str], threads: int | None = None) -> Model:
    """Read a ``.sw`` file and make it ready to run; everything is checked before anything runs.

    Args:
        path: the file.
        threads: how many threads a call may use; ``None`` means ``SIGNWISE_THREADS``, or all cores.

    Returns:
        A function from numpy arrays to numpy arrays: ``load("net.sw")(images)``.
    """
    return Model(file.load(path), threads)
