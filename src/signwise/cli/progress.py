"""What a command does at the moment: one line on a terminal, erased at the end."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """Show a line in place of the one before; an empty one erases it. A pipe gets nothing."""
    if sys.stderr.isatty():
        print(f"\r\033[K{line}" + (" ..." if line else ""), end="", file=sys.stderr, flush=True)
