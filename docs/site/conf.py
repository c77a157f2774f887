"""The documentation site: README, the guide and the API reference, built by ``make docs``.

The pages are the Markdown files of the repository, where they are. The navigation comes from the lists in
``docs/README.md``, so that a new page needs one line there. The API reference comes from the public names and their
docstrings.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

import signwise  # noqa: E402 - from the line above

project = "signwise"
release = version = signwise.__version__
author = "the authors of signwise"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "csrc/README.md",
    "src/signwise/datasets/embedded/README.md",
    "docs/*.md",
    "docs/site/api.rst",
]
# tests/docs/test_links.py checks every link; what is left here are links to folders, which only a repository shows.
suppress_warnings = ["myst.xref_missing"]
myst_heading_anchors = 4
myst_enable_extensions = ["smartquotes"]
smartquotes = False

html_theme = "furo"
html_title = f"signwise {release}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
pygments_dark_style = "monokai"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

_ENTRY = re.compile(r"^- \[[^\]]+\]\(([\w-]+)\.md\)", re.MULTILINE)


def _toctree(caption: str, pages: list[str]) -> str:
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def _navigation() -> str:
    """Hidden tables of contents: one per list of the guide, in its order."""
    guide = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    trees = ""
    for section in re.split(r"^(?=[A-Z][\w ]+:$)", guide, flags=re.MULTILINE)[1:]:
        caption, _, entries = section.partition(":\n")
        trees += _toctree(caption, [f"docs/{name}" for name in _ENTRY.findall(entries)])
    project_pages = ["docs/README", "CHANGELOG", "CONTRIBUTING", "SECURITY", "csrc/README"]
    project_pages.append("src/signwise/datasets/embedded/README")
    return trees + _toctree("Reference", ["docs/site/api"]) + _toctree("Project", project_pages)


def _api() -> str:
    """Every public name, by the module that defines it."""
    text = ""
    for module, names in sorted(signwise._HOMES.items()):
        text += f"\nsignwise.{module}\n{'-' * (9 + len(module))}\n\n"
        for name in names:
            value = getattr(signwise, name)
            kind = "class" if isinstance(value, type) else "function" if inspect.isroutine(value) else "data"
            members = "\n   :members:\n   :show-inheritance:" if kind == "class" else ""
            text += f".. auto{kind}:: signwise.{name}{members}\n\n"
    for module in signwise._MODULES:
        text += f"\nsignwise.{module}\n{'-' * (9 + len(module))}\n\n.. automodule:: signwise.{module}\n\n"
    return text


def _plain(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: |φ| is no substitution, and binarize_ no reference, in reStructuredText."""
    in_example = False
    for number, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if in_example:
            continue
        parts = line.split("`")
        # Every other part is within backticks.
        parts[::2] = [re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", part.replace("|", r"\|")) for part in parts[::2]]
        lines[number] = "`".join(parts)


def _fill(app: Sphinx, name: str, content: list[str]) -> None:
    if name == root_doc:
        content[0] += _navigation()
    elif name == "docs/site/api":
        content[0] += _api()


def _index(app: Sphinx, error: Exception | None) -> None:
    # Servers show index.html; the first page is README.html.
    if error is None and app.builder.name == "html":
        shutil.copy(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")


def setup(app: Sphinx) -> None:
    """Connect the generated parts."""
    app.connect("source-read", _fill)
    app.connect("autodoc-process-docstring", _plain)
    app.connect("build-finished", _index)
