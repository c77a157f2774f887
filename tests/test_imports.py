"""Imports follow the data: no cycle, lazy imports included, and no torch where numpy is enough."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PATHS = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((SOURCE / "signwise").rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in PATHS.items()}


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports in a module, also inside functions, but not those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from statements(child)


def imported(module: str) -> set[str]:
    """The names of the modules that ``module`` imports, in signwise and elsewhere."""
    found = set()
    for statement in statements(TREES[module]):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        else:
            assert statement.level == 0 and statement.module is not None, f"{module} has a relative import"
            names = {f"{statement.module}.{alias.name}" for alias in statement.names}
            found |= {name if name in PATHS else statement.module for name in names}
    return found


def test_no_module_imports_itself_through_others_not_even_lazily() -> None:
    graph = {module: imported(module) & set(PATHS) for module in PATHS}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"an import cycle: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("package", ["datasets", "export", "program", "runtime", "shipped"])
def test_packages_that_need_numpy_alone_reach_no_torch(package: str) -> None:
    reached, waiting = set(), [name for name in PATHS if f"{name}.".startswith(f"signwise.{package}.")]
    while waiting:
        module = waiting.pop()
        assert module.partition(".")[0] != "torch", f"signwise.{package} reaches torch"
        if module in PATHS and module not in reached:
            reached.add(module)
            waiting += imported(module)
