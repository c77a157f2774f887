"""What the paper leaves open, and how much it matters: short trainings that differ in one choice each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from signwise.errors import FormatError
from signwise.reproduce.table import Table

FILE = "openings.json"


def markdown(results: Path) -> str:
    """The measured choices as a table and a sentence on what was trained; a note where nothing was measured."""
    path = results / FILE
    if not path.exists():
        return "_Not measured yet._"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        table = _table(document)
        note = (
            f"{document['network']} with 1 bit, {document['epochs']} epochs of {document['images']:,} images, tested "
            f"on {document['test_images']:,}; error of sign(φ) after the last step, mean and deviation over "
            f"{document['seeds']} seeds. "
            f"{document['hardware']['processor']}, PyTorch {document['versions']['torch']}, {document['date']}."
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: not a record of the open choices: {error}") from None
    return f"{table.markdown()}\n\n{note}"


def _table(document: dict[str, Any]) -> Table:
    ours = document["choices"][0]["mean"]
    rows = tuple(
        (
            choice["question"],
            choice["choice"],
            f"{choice['mean']:.2f} ± {choice['deviation']:.2f}",
            "" if choice["is_ours"] else f"{choice['mean'] - ours:+.2f}",
        )
        for choice in document["choices"]
    )
    return Table(headings=("Open in the paper", "Choice", "Error, %", "Against ours"), rows=rows, words=2)
