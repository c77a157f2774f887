"""Documents with rendered parts: only the text between markers changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.markers import fill, fill_file, names

from signwise.errors import SignwiseError

DOCUMENT = "# Title\n\n<!-- begin one -->\nold\n<!-- end one -->\ntext\n<!-- begin two -->\n<!-- end two -->\n"


def test_only_the_named_part_changes_and_filling_again_changes_nothing() -> None:
    filled = fill(DOCUMENT, {"one": "| a |\n"})
    assert filled == DOCUMENT.replace("old", "| a |")
    assert fill(filled, {"one": "| a |\n"}) == filled
    assert names(filled) == ("one", "two")


def test_backslashes_and_groups_in_rendered_text_are_text() -> None:
    assert r"\1 \g<0>" in fill(DOCUMENT, {"two": r"\1 \g<0>"})


def test_a_marker_that_nothing_renders_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(DOCUMENT)
    with pytest.raises(SignwiseError, match="markers for two"):
        fill_file(path, {"one": "new"})
    assert path.read_text() == DOCUMENT
    assert fill_file(path, {"one": "new", "two": ""}) is True
    assert fill_file(path, {"one": "new", "two": ""}) is False
