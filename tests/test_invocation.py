"""A printed command works as printed, with the environment activated or not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from signwise.invocation import command, install


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment below the current folder, not activated, with signwise and without pip."""
    folder = tmp_path / "env" / "bin"
    folder.mkdir(parents=True)
    for name in ("python", "signwise"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_script_that_the_shell_does_not_find_is_named_by_its_path(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command() == "env/bin/signwise"
    monkeypatch.chdir("/usr")
    assert command() == str(environment / "signwise")
    monkeypatch.chdir(environment)
    assert command() == "./signwise"


def test_in_an_activated_environment_the_name_is_enough(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{environment}:/usr/bin")
    assert command() == "signwise"


def test_another_environment_on_the_path_is_not_meant(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "signwise").write_text("#!/bin/sh\n")
    (other / "signwise").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))
    assert command() == "env/bin/signwise"


def test_without_a_script_the_module_is_run(environment: Path) -> None:
    assert install("torch", "rich") == "env/bin/python -m pip install torch rich"
