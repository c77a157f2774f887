"""Processes of their own: an engine's failures and crashes become messages, and packed files need no PyTorch."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from signwise import shipped
from signwise.bench.engines import ENGINES
from signwise.bench.isolated import _block_torch, measure_without_torch, run_isolated
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


@pytest.mark.slow
def test_a_file_is_measured_where_pytorch_cannot_be_imported(digits: Path) -> None:
    path = shipped.resolve("lenet5-mnist-1bit")
    (result,) = measure_without_torch([path], digits)
    assert result.size == path.stat().st_size
    assert 0 <= result.error <= 100 and result.seconds > 0


def test_blocking_torch_makes_its_import_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, object] = {"torch": object()}
    monkeypatch.setattr("signwise.bench.isolated.sys.modules", modules)
    _block_torch()
    assert modules["torch"] is None
