"""The site's navigation comes from the guide's index: a page that it does not list would not be found."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT


def test_every_page_of_the_guide_is_in_the_navigation() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[[^\]]+\]\(([\w-]+)\.md\)", index, re.MULTILINE)
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}
    assert set(listed) == pages and len(listed) == len(pages)
    assert re.findall(r"^[A-Z][\w ]+:$", index, re.MULTILINE) == ["By task:", "In depth:"]
