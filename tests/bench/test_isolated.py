"""An engine in a process of its own: failures and crashes become messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from signwise.bench.isolated import ENGINES, run_isolated
from signwise.bench.network import Network, random_input
from signwise.errors import SignwiseError


def test_a_failing_engine_reports_its_reason(network: Network, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.sw"
    damaged.write_bytes(b"nothing of the kind")
    with pytest.raises(SignwiseError, match=r"damaged\.sw"):
        run_isolated(ENGINES["numpy"], "float32", damaged, random_input(network.float32, 1), threads=1)


def test_a_crash_is_reported_by_the_name_of_its_signal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    real = subprocess.run

    def crashing(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return real([command[0], "-c", crash], **options)

    monkeypatch.setattr("signwise.bench.isolated.subprocess.run", crashing)
    with pytest.raises(SignwiseError, match="crashed here: Illegal instruction"):
        run_isolated(ENGINES["numpy"], "float32", tmp_path, np.zeros((1, 1), np.float32), threads=1)


def test_the_process_of_an_engine_imports_nothing_heavy() -> None:
    # Whatever the process imports counts as memory of every engine.
    heavy = ("torch", "onnx", "multiprocessing", "signwise.datasets", "signwise.compiler")
    code = f"import sys, signwise.bench.isolated; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
