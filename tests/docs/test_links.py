"""Links lead to existing files and headings."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import Page

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def _anchors(text: str) -> set[str]:
    """The anchors of the headings: lower case letters, digits and hyphens."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_relative_links_lead_to_files_and_headings(page: Page) -> None:
    for target in _LINK.findall(page.prose):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        path = (page.path.parent / name).resolve() if name else page.path
        assert path.exists(), f"{page.path.name} links to {target}, which does not exist"
        if anchor:
            assert anchor in _anchors(path.read_text(encoding="utf-8")), f"{page.path.name}: no heading for {target}"


def test_outside_links_are_encrypted(page: Page) -> None:
    assert "http://" not in page.prose


def test_every_page_of_the_guide_is_in_its_index() -> None:
    folder = Path(__file__).parents[2] / "docs"
    index = (folder / "README.md").read_text(encoding="utf-8")
    for path in folder.glob("*.md"):
        assert path.name == "README.md" or f"({path.name})" in index
