"""The doctor tells what matters in a report of a problem, with and without PyTorch, and without the kernels."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import signwise
import signwise.shipped
from signwise.cli import main
from signwise.cli.doctor import examine
from signwise.runtime import native


def test_versions_kernels_threads_and_folder_are_told(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SIGNWISE_DATA", str(tmp_path))
    monkeypatch.setenv("SIGNWISE_THREADS", "3")
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for told in (
        signwise.__version__,
        np.__version__,
        str(native.isa()),
        "3 (SIGNWISE_THREADS",
        str(tmp_path),
        "mnist",
    ):
        assert told in shown


def test_programs_get_the_same_as_json(capsys):
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == examine()


def test_what_is_missing_comes_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setattr("signwise.provenance.versions", lambda *names: {"signwise": "1", "numpy": "2"})
    assert examine()["versions"]["torch"] == "not installed (pip install 'signwise[train]')"


def test_without_pytorch_no_accelerator_is_looked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "without PyTorch" in examine()["devices"]["accelerator"]


def test_without_the_native_library_the_reason_is_told_and_nothing_warns(monkeypatch):
    monkeypatch.setenv("SIGNWISE_LIBRARY", "/nowhere/libsignwise.so")
    assert "numpy is used" in examine()["kernels"]["chosen"]


def test_a_name_of_no_file_suggests_the_nearest_shipped_network(capsys, monkeypatch, tmp_path):
    (tmp_path / "lenet5-mnist-1bit.sw").write_bytes(b"")
    monkeypatch.setattr("signwise.shipped._FOLDER", tmp_path)
    for command in ("eval", "inspect", "bench"):
        assert main([command, "lenet5-minst-1bit"]) == 2
        shown = capsys.readouterr()
        assert shown.out == "" and shown.err.count("\n") == 1
        assert "did you mean lenet5-mnist-1bit?" in shown.err
    assert signwise.shipped.resolve("lenet5-mnist-1bit") == tmp_path / "lenet5-mnist-1bit.sw"


def test_a_file_comes_before_a_shipped_network_of_the_same_name(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("lenet5-mnist-1bit").write_bytes(b"")
    assert signwise.shipped.resolve("lenet5-mnist-1bit") == Path("lenet5-mnist-1bit")
