"""How far a download is, on the terminal: one line that is rewritten, or a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

Progress = Callable[[str, int, int], None]
"""Is told the name of a file, the bytes that are there and the bytes that it will have."""

_WIDTH = 30


class ProgressBar:
    """A bar on a terminal, plain lines at each tenth elsewhere.

    Args:
        stream: where to write; standard error unless told.

    Example:
        >>> bar = ProgressBar(sys.stdout)
        >>> for done in (0, 60, 120):
        ...     bar("data.bin", done * 10**6, 120 * 10**6)
        data.bin: 0 of 120 MB
        data.bin: 60 of 120 MB
        data.bin: 120 of 120 MB
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._shown: tuple[str, int] | None = None
        self._next_time = 0.0

    def __call__(self, name: str, done: int, total: int) -> None:
        megabytes = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
        if not self._stream.isatty():
            tenth = 10 * done // total
            if self._shown != (name, tenth):
                self._shown = name, tenth
                print(f"{name}: {megabytes}", file=self._stream, flush=True)
            return
        now = time.monotonic()
        if now < self._next_time and done < total:
            return
        self._next_time = now + 0.1
        filled = _WIDTH * done // total
        end = "\n" if done == total else ""
        print(f"\r{name} [{'=' * filled:{_WIDTH}}] {megabytes}", end=end, file=self._stream, flush=True)
