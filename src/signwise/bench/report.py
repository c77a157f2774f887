"""A comparison as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signwise.bench.engines import PRECISIONS
from signwise.bench.measure import Comparison, Row
from signwise.runtime import native
from signwise.text import aligned


def table(comparison: Comparison) -> str:
    """The comparison as text: milliseconds, and how many times as long as the packed file each engine takes."""
    head = ["engine", "activations", *map(str, comparison.settings), "memory", "file"]
    rows = [
        _cells(comparison, row) for precision in PRECISIONS for row in comparison.rows if row.precision == precision
    ]
    return "\n".join([aligned([head, *rows], left=(0, 1)), "", *_sentences(comparison)])


def files_table(comparisons: Mapping[str, Comparison]) -> str:
    """Several packed files beside each other: one row per file and precision, in our own engine.

    Args:
        comparisons: the measurements by the name of the file; all with the same settings.
    """
    settings = next(iter(comparisons.values())).settings
    rows = [["file", "activations", *map(str, settings), "memory", "file"]]
    for precision in PRECISIONS:
        for name, comparison in comparisons.items():
            mine = comparison.ours(precision)
            if mine is not None:
                times = [milliseconds(mine.timings[setting].best) for setting in settings]
                rows.append([name, precision, *times, megabytes(mine.memory_bytes), megabytes(mine.file_bytes)])
    return aligned(rows, left=(0, 1))


def as_data(comparison: Comparison) -> dict[str, Any]:
    """The comparison as a JSON object; times are in seconds."""
    return {
        "isa": native.isa(),
        "float_bytes": comparison.float_bytes,
        "notes": comparison.notes,
        "rows": [
            {
                "engine": row.engine.name,
                "title": row.engine.title,
                "precision": row.precision,
                "file_bytes": row.file_bytes,
                "memory_bytes": row.memory_bytes,
                "difference": row.difference,
                "times": [
                    {
                        "batch": setting.batch,
                        "threads": setting.threads,
                        "best": timing.best,
                        "median": timing.median,
                        "runs": timing.runs,
                    }
                    for setting, timing in row.timings.items()
                ],
            }
            for row in comparison.rows
        ],
        "failures": [
            {"engine": failure.engine.name, "precision": failure.precision, "reason": failure.reason}
            for failure in comparison.failures
        ],
        "speedups": [
            {"precision": precision, "batch": setting.batch, "threads": setting.threads, "over_fastest": speedup}
            for precision in PRECISIONS
            for setting in comparison.settings
            if (speedup := comparison.speedup(precision, setting)) is not None
        ],
    }


def milliseconds(seconds: float) -> str:
    """A time with three significant digits.

    Example:
        >>> [milliseconds(seconds) for seconds in (0.0000421, 0.0123, 1.5)]
        ['0.042 ms', '12.3 ms', '1500 ms']
    """
    shown = 1000 * seconds
    return f"{shown:.3f} ms" if shown < 1 else f"{shown:.2f} ms" if shown < 10 else f"{shown:.4g} ms"


def megabytes(count: int) -> str:
    """A size in megabytes, or in kilobytes where that would be a fraction.

    Example:
        >>> megabytes(80_678), megabytes(1_440_000), megabytes(440_000_000)
        ('81 KB', '1.4 MB', '440 MB')
    """
    shown = count / 1e6
    return f"{count / 1e3:.0f} KB" if shown < 1 else f"{shown:.1f} MB" if shown < 100 else f"{shown:.0f} MB"


def _cells(comparison: Comparison, row: Row) -> list[str]:
    mine = comparison.ours(row.precision)
    times = []
    for setting in comparison.settings:
        best = row.timings[setting].best
        ratio = "" if mine is None or mine is row else f" {best / mine.timings[setting].best:5.1f}x"
        times.append(milliseconds(best) + (ratio or " " * 7))
    return [row.engine.title, row.precision, *times, megabytes(row.memory_bytes), megabytes(row.file_bytes)]


def _sentences(comparison: Comparison) -> list[str]:
    sentences = []
    for precision in PRECISIONS:
        for setting in comparison.settings:
            speedup, peer = comparison.speedup(precision, setting), comparison.fastest_peer(precision, setting)
            if speedup is not None and peer is not None:
                sentences.append(f"{setting}: {speedup:.2f} times as fast as {peer.engine.title} {precision}")
    mine = comparison.ours("float32") or comparison.ours("int8")
    if mine is not None:
        smaller = comparison.float_bytes / mine.file_bytes
        sentences.append(f"file: {smaller:.1f} times smaller than with float32 weights")
    sentences += [f"note: {note}" for note in comparison.notes]
    for failure in comparison.failures:
        sentences.append(f"{failure.engine.title} {failure.precision} is missing: {failure.reason}")
    return sentences
