"""The architecture page names files that exist, and its map leaves no module out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def mapped() -> list[str]:
    """The paths of the map, relative to the repository."""
    paths, parent = [], ""
    for line in re.findall(r"^ {4}(.*)$", PAGE, re.MULTILINE):
        name = line.split()[0]
        if not line.startswith(" "):
            parent = name
        paths.append(parent + name if line.startswith(" ") else name)
    return paths


def named() -> list[str]:
    """The paths in the text, relative to the repository; templates such as ``<name>.py`` are left out."""
    prose = re.sub(r"^ {4}.*$", "", PAGE, flags=re.MULTILINE)
    return sorted(
        {path for path in re.findall(r"`([\w./-]+)`", prose) if "/" in path or path.endswith((".md", ".txt"))}
    )


@pytest.mark.parametrize("path", sorted({*mapped(), *named()}))
def test_every_named_path_exists(path: str) -> None:
    assert (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file()


@pytest.mark.parametrize("folder", ["src/signwise", "csrc"])
def test_every_module_and_package_is_on_the_map(folder: str) -> None:
    modules = {f"{folder}/{path.name}" for path in (ROOT / folder).iterdir() if path.suffix in {".py", ".h", ".cpp"}}
    packages = {
        f"{folder}/{path.name}/" for path in (ROOT / folder).iterdir() if path.is_dir() and path.name[:2] != "__"
    }
    assert modules | packages <= set(mapped())
