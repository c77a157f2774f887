"""The site's navigation comes from the guide's index: a page that it does not list would not be found."""

from __future__ import annotations

import re
import runpy

import pytest
from tests.docs.pages import ROOT
from tools.gallery import EXAMPLES

import signwise


def test_every_page_of_the_guide_is_in_the_navigation() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[[^\]]+\]\(([\w-]+)\.md\)", index, re.MULTILINE)
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}
    assert set(listed) == pages and len(listed) == len(pages)
    assert re.findall(r"^[A-Z][\w ]+:$", index, re.MULTILINE) == ["By task:", "In depth:"]


def test_the_reference_describes_every_public_name() -> None:
    pytest.importorskip("sphinx")
    conf = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))
    described = set(re.findall(r"^\.\. [\w:]+:: signwise\.([\w.]+)$", conf["_api"](), re.MULTILINE))
    assert set(signwise.__all__) - {"__version__"} <= described
    for module in signwise._MODULES:
        content = getattr(signwise, module)
        own = [name for name in conf["public_names"](content) if not hasattr(signwise, name)]
        assert {f"{module}.{name}" for name in own} <= described


def test_the_gallery_shows_the_source_of_every_example() -> None:
    pytest.importorskip("sphinx")
    conf = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))
    page = conf["_with_sources"]((ROOT / "docs" / "gallery.md").read_text(encoding="utf-8"))
    for name in EXAMPLES:
        assert f"```{{literalinclude}} ../examples/{name}.py" in page
        assert f"](gallery/{name}.png)" in page
