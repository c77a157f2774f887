"""The documentation site: README, the guide, the gallery, the demo and the API reference, built by ``make docs``.

The pages are the Markdown files of the repository, where they are. The navigation comes from the lists in
``docs/README.md``, so that a new page needs one line there. The API reference comes from the public names and their
docstrings. The demo is the page of ``web/`` with the shipped networks, if ``make wasm`` has built its runtime.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tools.build_web import write_site  # noqa: E402

import signwise  # noqa: E402 - from the line above
from signwise.errors import SignwiseError  # noqa: E402

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
myst_enable_extensions = ["dollarmath", "smartquotes"]
html_math_renderer = "mathml"
smartquotes = False

html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
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
autodoc_inherit_docstrings = False  # what PyTorch says about forward helps nobody here
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


def _entry(path: str, value: object) -> str:
    """The directive for a public name."""
    if isinstance(value, type):
        return f".. autoclass:: {path}\n   :members:\n   :show-inheritance:\n\n"
    if inspect.isroutine(value):
        return f".. autofunction:: {path}\n\n"
    # A table, such as that of the recipes, or a constant: its content is its description.
    shown = ", ".join(f"``{key}``" for key in value) if isinstance(value, Mapping) else f"``{value!r}``"
    return f".. py:data:: {path}\n\n   {shown}\n\n"


def _section(module: str) -> str:
    return f"\nsignwise.{module}\n{'-' * (9 + len(module))}\n\n"


def _api() -> str:
    """Every public name by the module that defines it, then the modules with names of their own."""
    text = ""
    for module, names in sorted(signwise._HOMES.items()):
        text += _section(module) + "".join(_entry(f"signwise.{name}", getattr(signwise, name)) for name in names)
    own = {name: importlib.import_module(f"signwise.{name}") for name in signwise._MODULES}
    own |= {name: importlib.import_module(f"signwise.{name}") for name in _integrations()}
    for module, content in own.items():
        text += _section(module) + f".. automodule:: signwise.{module}\n\n"
        for name in public_names(content):
            # A name that `signwise` itself has is described above.
            if name not in signwise.__all__ or getattr(signwise, name) is not getattr(content, name):
                text += _entry(f"signwise.{module}.{name}", getattr(content, name))
    return text


def public_names(module: ModuleType) -> list[str]:
    """What a module offers: its ``__all__``, or else the functions and classes that it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def _integrations() -> list[str]:
    """The modules about other packages, as far as these are installed."""
    packages = {"lightning": "lightning", "huggingface": "transformers", "hub": "huggingface_hub"}
    return [f"integrations.{name}" for name, package in packages.items() if importlib.util.find_spec(package)]


def _plain(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: |φ| is no substitution, and binarize_ no reference, in reStructuredText."""
    in_example = False
    for number, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if in_example:
            continue
        parts = re.split(r"(`+[^`]+`+)", line)  # every other part is within backticks
        parts[::2] = [re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", part.replace("|", r"\|")) for part in parts[::2]]
        lines[number] = "".join(parts)


def _with_sources(page: str) -> str:
    """The gallery with each example's source, folded, below the link to it."""
    include = (
        r"\g<0>\n\n<details><summary>Show it here</summary>\n\n"
        r"```{literalinclude} ../examples/\1.py\n:language: python\n```\n\n</details>"
    )
    return re.sub(r"^Source: \[examples/\w+\.py\]\(\.\./examples/(\w+)\.py\)$", include, page, flags=re.MULTILINE)


# What GitHub understands in a formula and docutils does not.
_OTHER_SPELLINGS = {"∂": r"\partial ", "←": r"\leftarrow ", "≈": r"\approx ", r"\dots": r"\ldots", r"\big": ""}


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    """A formula as MathML, which browsers draw themselves: no script, and nothing to load from elsewhere."""
    text = node.astext()
    for spelling, known in _OTHER_SPELLINGS.items():
        text = text.replace(spelling, known)
    mathml = str(tex2mathml(text, as_block=as_block))
    # docutils puts the index of a letter with a bar below it.
    barred = r"<munderover>\s*(<mi>.</mi>)\s*(<mi>.</mi>)\s*(<mo[^>]*>.</mo>)\s*</munderover>"
    return re.sub(barred, r"<msub><mover>\1\3</mover>\2</msub>", mathml)


def _inline_formula(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block_formula(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _fill(app: Sphinx, name: str, content: list[str]) -> None:
    if name == root_doc:
        content[0] += _navigation()
    elif name == "docs/gallery":
        content[0] = _with_sources(content[0])
    elif name == "docs/site/api":
        content[0] += _api()


def _finish(app: Sphinx, error: Exception | None) -> None:
    """Add the first page under the name that servers look for, and the demo."""
    if error is not None or app.builder.name != "html":
        return
    shutil.copy(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")
    demo = Path(app.outdir) / "demo"
    try:
        write_site(demo)
    except SignwiseError:  # the runtime was not built
        demo.mkdir(exist_ok=True)
        text = "<p>The demo is not part of this copy of the site. To add it: <code>make wasm docs</code></p>"
        (demo / "index.html").write_text(f'<!doctype html><html lang="en"><title>Demo</title>{text}</html>')


def setup(app: Sphinx) -> None:
    """Connect the generated parts."""
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_block_formula, None))
    app.connect("source-read", _fill)
    app.connect("autodoc-process-docstring", _plain)
    app.connect("build-finished", _finish)
