"""A packed file on its own, measured where PyTorch cannot be imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from signwise import shipped
from signwise.bench.packed import _block_torch, measure_without_torch


@pytest.mark.slow
def test_a_file_is_measured_where_pytorch_cannot_be_imported(digits: Path) -> None:
    path = shipped.resolve("lenet5-mnist-1bit")
    (result,) = measure_without_torch([path], digits)
    assert result.size == path.stat().st_size
    assert 0 <= result.error <= 100 and result.seconds > 0


def test_blocking_torch_makes_its_import_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, object] = {"torch": object()}
    monkeypatch.setattr("signwise.bench.packed.sys.modules", modules)
    _block_torch()
    assert modules["torch"] is None
