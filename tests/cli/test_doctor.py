"""The doctor reports what a bug report needs, with and without PyTorch, and without the native library."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import signwise
from signwise.cli import main
from signwise.cli.doctor import examine
from signwise.runtime import native


def test_versions_kernels_threads_and_folder_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SIGNWISE_DATA", str(tmp_path))
    monkeypatch.setenv("SIGNWISE_THREADS", "3")
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for expected in (
        signwise.__version__,
        np.__version__,
        str(native.isa()),
        "3 (set SIGNWISE_THREADS",
        str(tmp_path),
        "mnist",
    ):
        assert expected in shown


def test_json_holds_the_same_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == examine()


def test_a_missing_package_comes_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signwise.provenance.versions", lambda *names: {"signwise": "1", "numpy": "2"})
    assert examine()["versions"]["torch"].endswith("pip install torch)")


def test_without_pytorch_the_accelerator_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "without PyTorch" in examine()["devices"]["accelerator"]


def test_without_the_native_library_the_reason_is_shown_and_nothing_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNWISE_LIBRARY", "/nowhere/libsignwise.so")
    assert "programs run in numpy" in examine()["kernels"]["chosen"]
