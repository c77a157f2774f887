"""Documents with rendered parts: people write the text, and records fill what is between markers.

    <!-- begin table1 -->
    | ... |
    <!-- end table1 -->

The markers stay, so that rendering again replaces the previous rendering, and changes nothing if no record changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from signwise.errors import SignwiseError
from signwise.reproduce.render import write_if_changed

_BLOCK = re.compile(r"<!-- begin ([a-z0-9_-]+) -->\n(.*?)<!-- end \1 -->", re.DOTALL)


def fill(text: str, blocks: Mapping[str, str]) -> str:
    """Put rendered text between the markers with its name; everything else stays as it is.

    Args:
        text: a document.
        blocks: rendered text by the name of its markers; names that the document does not have are ignored.

    Example:
        >>> fill("a\\n<!-- begin n -->\\nold\\n<!-- end n -->\\n", {"n": "new"})
        'a\\n<!-- begin n -->\\nnew\\n<!-- end n -->\\n'
    """

    def replaced(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in blocks:
            return match.group(0)
        return f"<!-- begin {name} -->\n{blocks[name].strip()}\n<!-- end {name} -->"

    return _BLOCK.sub(replaced, text)


def names(text: str) -> tuple[str, ...]:
    """The names of the markers in a document, in order."""
    return tuple(match.group(1) for match in _BLOCK.finditer(text))


def filled(path: Path, blocks: Mapping[str, str]) -> str:
    """A document's text with its blocks rendered.

    Raises:
        SignwiseError: the document cannot be read, or has markers for which nothing is rendered.
    """
    try:
        before = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SignwiseError(f"cannot read {path}: {error.strerror or error}") from error
    unknown = [name for name in names(before) if name not in blocks]
    if unknown:
        raise SignwiseError(f"{path} has markers for {', '.join(unknown)}, which nothing renders")
    return fill(before, blocks)


def fill_file(path: Path, blocks: Mapping[str, str]) -> bool:
    """Render a document in place; returns whether it changed."""
    return write_if_changed(path, filled(path, blocks))
