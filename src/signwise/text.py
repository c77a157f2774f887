"""Text for people: aligned tables, durations, suggestions for misspelled names, and text that others wrote."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence


def aligned(rows: Iterable[Sequence[str]], *, left: Collection[int] = (0,)) -> str:
    """A plain-text table with two spaces between columns.

    Args:
        rows: the cells, headings first; every row has the same number of columns.
        left: the indices of the left-aligned columns; the others, which hold numbers, are right-aligned.

    Example:
        >>> print(aligned([("layer", "bytes"), ("conv1", "96"), ("classifier", "20,000")]))
        layer        bytes
        conv1           96
        classifier  20,000
    """
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        columns = enumerate(zip(row, widths, strict=True))
        padded = [cell.ljust(width) if number in left else cell.rjust(width) for number, (cell, width) in columns]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """A duration in its two largest units.

    Example:
        >>> duration(59), duration(61), duration(3 * 3600 + 5 * 60), duration(75 * 3600)
        ('59 s', '1 min 1 s', '3 h 5 min', '3 days 3 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    hours = whole // 3600
    if hours < 48:
        return f"{hours} h {whole % 3600 // 60} min"
    return f"{hours // 24:,} days {hours % 24} h"


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless there is one.

    Example:
        >>> counted(1, "epoch"), counted(3000, "step")
        ('1 epoch', '3,000 steps')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that does not exist: it suggests the nearest known name, or lists them all.

    Example:
        >>> unknown_name("data set", "minst", ["mnist", "cifar10"])
        "there is no data set 'minst': did you mean mnist?"
        >>> unknown_name("data set", "x", ["mnist", "cifar10"])
        "there is no data set 'x': choose from mnist, cifar10"
    """
    choices = list(known)
    nearest = difflib.get_close_matches(name, choices, n=1, cutoff=0.4)
    hint = f"did you mean {nearest[0]}?" if nearest else f"choose from {', '.join(choices)}"
    return f"there is no {kind} {name!r}: {hint}"


def printable(text: str) -> str:
    """Text from a server or a file, safe to show on a terminal: control characters become escapes.

    Example:
        >>> print(printable("404 \x1b[2J Not\u202e Found"))
        404 \\x1b[2J Not\\u202e Found
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
