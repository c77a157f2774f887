"""A record says what its result depends on."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import signwise
from signwise import provenance
from signwise.program import Program

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "src" / "signwise" / "shipped"

git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def test_the_time_is_utc_to_the_second() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", provenance.now())


def test_versions_are_those_of_the_installed_packages_and_skip_the_others() -> None:
    found = provenance.versions("PyTest", "no-such-package")
    assert found["signwise"] == signwise.__version__ and found["python"] == platform.python_version()
    assert found["numpy"] == np.__version__
    assert found["PyTest"] == pytest.__version__ and "no-such-package" not in found


def test_the_processor_has_a_name_even_if_the_system_does_not_report_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert provenance.processor()

    def unreadable(*_: object, **__: object) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", unreadable)
    assert provenance.processor() == (platform.processor() or platform.machine())


def test_an_accelerator_is_named_only_if_there_is_one() -> None:
    assert "accelerator" not in provenance.hardware()
    assert provenance.hardware("cuda", "A100")["accelerator"] == "A100"
    assert provenance.hardware()["cores"] == os.cpu_count()


def run_git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package in a repository with one commit, from which `provenance` seems to be imported."""
    package = tmp_path / "signwise"
    package.mkdir()
    (package / "provenance.py").write_text("")
    run_git(tmp_path, "init", "--quiet")
    run_git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "first")
    monkeypatch.setattr(provenance, "__file__", str(package / "provenance.py"))
    return package


@git
def test_the_revision_is_that_of_the_source_and_marks_changes(source: Path) -> None:
    run_git(source, "add", "provenance.py")
    run_git(source, "commit", "--quiet", "--message", "source")
    head = run_git(source, "rev-parse", "HEAD")
    assert provenance.revision() == head
    (source / "provenance.py").write_text("# changed\n")
    assert provenance.revision() == f"{head}+changes"


@git
def test_a_copy_inside_another_repository_has_no_revision(source: Path) -> None:
    assert provenance.revision() is None


def test_a_record_holds_the_result_and_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "new" / "record.json"
    provenance.write_record(path, {"error": 0.5, "date": "2020"}, "pytest")
    record = json.loads(path.read_text())
    assert record["error"] == 0.5 and record["date"] == "2020", "the result takes precedence"
    assert {"versions", "hardware", "revision"} <= set(record) and "pytest" in record["versions"]


def named_revisions(record: object) -> Iterator[str]:
    """Every revision in a record, at any depth."""
    if isinstance(record, dict):
        yield from [record["revision"]] if "revision" in record else []
        yield from record.get("revisions", {})
    for part in record.values() if isinstance(record, dict) else record if isinstance(record, list) else []:
        yield from named_revisions(part)


@git
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the history of the repository")
def test_shipped_programs_and_the_figures_on_reliability_and_language_models_come_from_commits() -> None:
    named = {path.stem: {Program.load(path).about["revision"]} for path in SHIPPED.glob("*.sw")}
    for pattern in ("reliability*.json", "language-model*.json"):
        named |= {
            path.name: set(named_revisions(json.loads(path.read_text()))) for path in (ROOT / "results").glob(pattern)
        }
    assert len(named) >= 8 and all(named.values())
    for name, revisions in named.items():
        for revision in revisions:
            command = ["git", "-C", str(ROOT), "cat-file", "-e", f"{revision}^{{commit}}"]
            assert subprocess.run(command, capture_output=True).returncode == 0, f"{name}: {revision}"
