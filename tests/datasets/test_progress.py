"""The progress of a download, on a terminal and in a log."""

from __future__ import annotations

import io

from signwise.datasets import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_one_line_for_each_tenth():
    log = io.StringIO()
    bar = ProgressBar(log)
    for done in range(1001):
        bar("a.bin", done * 10**5, 10**8)
    assert log.getvalue().splitlines() == [f"a.bin: {10 * tenth} of 100 MB" for tenth in range(11)]


def test_a_terminal_gets_one_line_that_is_rewritten_and_ends_full():
    terminal = Terminal()
    bar = ProgressBar(terminal)
    for done in range(101):
        bar("a.bin", done * 10**6, 10**8)
    shown = terminal.getvalue()
    assert shown.count("\n") == 1 and shown.endswith(f"[{'=' * 30}] 100 of 100 MB\n")
    assert shown.startswith("\ra.bin [") and shown.count("\r") < 101, "not every call is worth a line"
