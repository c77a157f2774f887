"""Ctrl-C and SIGTERM ask a run to stop after the step that it is in; a second Ctrl-C does not wait."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Stop:
    """Whether the run has been asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @property
    def asked(self) -> bool:
        return self.signal is not None

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextlib.contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """Within the block, SIGINT and SIGTERM set the flag instead of ending the process."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        # Python delivers signals to the main thread alone; elsewhere the caller decides when to stop.
        yield stop
        return
    before = {number: signal.signal(number, stop._ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
