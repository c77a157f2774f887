"""A table of texts, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

ABSENT = "–"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Headings and rows.

    Args:
        headings: one text a column.
        rows: each with one text a column; `ABSENT` where there is nothing.
        words: how many of the first columns hold words; the others hold numbers and are aligned to the right.

    Example:
        >>> print(Table(headings=("Network", "Error"), rows=(("LeNet5", "0.5"),), words=1).markdown())
        | Network | Error |
        |---|---:|
        | LeNet5 | 0.5 |
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headings):
                raise ValueError(f"a row must have {len(self.headings)} columns, got {row}")

    def markdown(self) -> str:
        """The table in Markdown, without a last line break."""
        rule = ["---" if column < self.words else "---:" for column in range(len(self.headings))]
        lines = [self.headings, *self.rows]
        texts = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]
        return "\n".join([texts[0], f"|{'|'.join(rule)}|", *texts[1:]])

    def csv(self) -> str:
        """The table as comma-separated values; absent ones are empty, and marks of emphasis are gone."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        for line in (self.headings, *self.rows):
            writer.writerow(["" if cell == ABSENT else cell.replace("**", "") for cell in line])
        return buffer.getvalue()
