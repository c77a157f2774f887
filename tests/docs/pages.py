"""The pages of the documentation and their fenced blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Args:
        language: the word after the opening fence.
        text: the text between the fences.
        line: the line of the page on which the text begins, from 1.
        before: the paragraph above.
    """

    language: str
    text: str
    line: int
    before: str


@dataclass(frozen=True)
class Page:
    """A Markdown file with its blocks."""

    path: Path
    text: str
    blocks: tuple[Block, ...]

    @property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        return _FENCE.sub("", self.text)


def read_page(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    blocks = [
        Block(
            match.group(1),
            match.group(2),
            text.count("\n", 0, match.start(2)) + 1,
            text[: match.start()].rstrip().rpartition("\n\n")[2],
        )
        for match in _FENCE.finditer(text)
    ]
    return Page(path, text, tuple(blocks))


PATHS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
