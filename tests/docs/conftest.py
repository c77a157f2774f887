"""Runs every test that asks for a ``page`` once per page of the documentation."""

from __future__ import annotations

import pytest
from tests.docs.pages import PATHS, ROOT, read_page


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "page" in metafunc.fixturenames:
        pages = [read_page(path) for path in PATHS]
        metafunc.parametrize("page", pages, ids=[str(page.path.relative_to(ROOT)) for page in pages])
