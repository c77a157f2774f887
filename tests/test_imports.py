"""Imports run one way: no cycle among modules or packages, and no PyTorch below the line."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"


def modules() -> dict[str, Path]:
    """Every module of the package by its name; a package is named after its folder."""
    found = {}
    for path in sorted((SOURCE / "signwise").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported_by(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, at its top or within functions; not for type checkers alone."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{path} imports relatively"
            for alias in node.names:
                # `from package import name` reads a submodule if there is one, else a name of the package itself.
                name = f"{node.module}.{alias.name}"
                if name in MODULES or node.module in MODULES:
                    yield name if name in MODULES else node.module


GRAPH = {name: set(imported_by(path)) for name, path in MODULES.items()}


def cycle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """One cycle of the graph, or an empty list."""
    finished: set[str] = set()
    path: list[str] = []

    def visit(node: str) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in finished:
            return []
        path.append(node)
        for after in sorted(graph.get(node, ())):
            if found := visit(after):
                return found
        finished.add(path.pop())
        return []

    for node in sorted(graph):
        if found := visit(node):
            return found
    return []


def package(name: str) -> str:
    """The package, or the module at the top level, that a module belongs to."""
    return ".".join(name.split(".")[:2])


def test_a_cycle_is_found_where_there_is_one() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_lazy_imports_are_seen_and_those_for_type_checkers_are_not(tmp_path: Path) -> None:
    code = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from signwise.program import Program
def late():
    from signwise.runtime import native
    import signwise.errors
    from signwise.errors import FormatError
"""
    (tmp_path / "module.py").write_text(code)
    assert set(imported_by(tmp_path / "module.py")) == {"signwise.runtime.native", "signwise.errors"}


def test_no_module_imports_itself_through_others() -> None:
    assert cycle_in(GRAPH) == []


def test_no_package_imports_itself_through_others() -> None:
    packages: dict[str, set[str]] = {}
    for name, imports in GRAPH.items():
        others = {package(other) for other in imports} - {package(name), "signwise"}
        packages.setdefault(package(name), set()).update(others)
    assert cycle_in(packages) == []


def test_the_runtime_knows_nothing_of_programs() -> None:
    reached = {
        package(other) for name, imports in GRAPH.items() if package(name) == "signwise.runtime" for other in imports
    }
    assert reached <= {"signwise", "signwise.errors", "signwise.runtime"}


def test_below_program_nothing_imports_it() -> None:
    facade = {"signwise.program", "signwise.program.program"}
    below = {name for name in GRAPH if name.startswith("signwise.program.")} - facade
    assert below and not {name: GRAPH[name] & facade for name in below if GRAPH[name] & facade}


@pytest.mark.parametrize("name", ["datasets", "program", "runtime", "shipped", "export"])
def test_running_programs_loads_no_torch(name: str) -> None:
    code = f"import sys, signwise.{name}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
