"""Documents with rendered parts: text by people, and between markers what is rendered from records.

    <!-- begin table1 -->
    | ... |
    <!-- end table1 -->

The markers stay, so that rendering again replaces what was rendered before and changes nothing if the records did not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from signwise.atomic import atomic_write
from signwise.errors import SignwiseError

_BLOCK = re.compile(r"<!-- begin ([a-z0-9_-]+) -->\n(.*?)<!-- end \1 -->", re.DOTALL)


def fill(text: str, blocks: Mapping[str, str]) -> str:
    """Put rendered text between the markers that bear its name; other parts stay as they are.

    Args:
        text: a document.
        blocks: rendered text by the name of its markers; a name that the document does not have is not used.

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


def fill_file(path: Path, blocks: Mapping[str, str]) -> bool:
    """Render a document in place; returns whether it changed.

    Raises:
        SignwiseError: the document has markers for which nothing is rendered, or cannot be read.
    """
    try:
        before = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SignwiseError(f"cannot read {path}: {error.strerror or error}") from error
    unknown = [name for name in names(before) if name not in blocks]
    if unknown:
        raise SignwiseError(f"{path} has markers for {', '.join(unknown)}, which nothing renders")
    after = fill(before, blocks)
    if after == before:
        return False
    with atomic_write(path) as file:
        file.write(after.encode())
    return True
