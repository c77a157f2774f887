"""Measuring: engines run in isolation, then take turns; a crash becomes a message; packed files need no PyTorch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from signwise import shipped
from signwise.bench.engines import Precision, Runner
from signwise.bench.engines.signwise import Numpy
from signwise.bench.isolated import ENGINES, IsolatedRun
from signwise.bench.measure import Comparison, Plan, Setting, _block_torch, compare, measure_without_torch
from signwise.bench.network import Network, listed
from signwise.errors import SignwiseError

ONE, TWO = Setting(batch=1, threads=1), Setting(batch=16, threads=2)


class Peer(Numpy):
    """Stands for another engine, without a package to install."""

    name = "peer"
    title = "Peer"
    ours: ClassVar[bool] = False


def isolated(*_: object, **__: object) -> IsolatedRun:
    return IsolatedRun(outputs=np.zeros((1, 5), np.float32), peak_bytes=10**12)


def test_the_speedup_is_relative_to_the_fastest_peer(comparison: Comparison) -> None:
    assert comparison.speedup("float32", ONE) == pytest.approx(2.5)
    assert comparison.speedup("float32", TWO) == pytest.approx(1.2)
    assert comparison.speedup("int8", ONE) is None


def test_engines_run_in_isolation_first_and_are_timed_together(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Peer()
    monkeypatch.setitem(ENGINES, "peer", peer)

    def opened(path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        seen.append((precision, batch, threads))
        return lambda examples: listed(examples)[0]

    seen: list[tuple[str, int, int]] = []
    monkeypatch.setattr(peer, "open", opened)
    monkeypatch.setattr("signwise.bench.measure.run_isolated", isolated)
    plan = Plan(engines=[peer], precisions=["float32"], batches=[1, 2], threads=[1, 3], seconds=0.01)
    found = compare(network, plan)
    assert seen == [("float32", 1, 1), ("float32", 1, 3), ("float32", 2, 1), ("float32", 2, 3)]
    assert len(found.rows) == 1 and list(found.rows[0].timings) == found.settings
    assert found.rows[0].difference == pytest.approx(1.0)


def test_an_engine_that_crashes_is_listed_and_the_rest_is_measured(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crashing(engine: object, *_: object, **__: object) -> IsolatedRun:
        if isinstance(engine, Peer):
            raise SignwiseError("it crashed here: Aborted")
        return isolated()

    monkeypatch.setattr("signwise.bench.measure.run_isolated", crashing)
    plan = Plan(engines=[Peer(), Numpy()], precisions=["float32"], batches=[1], seconds=0.01)
    found = compare(network, plan)
    assert [failure.reason for failure in found.failures] == ["it crashed here: Aborted"]
    assert [measured.engine.name for measured in found.rows] == ["numpy"]


def test_an_illegal_instruction_leads_to_a_second_attempt_without_amx(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "ALL")

    def without_amx(*_: object, **__: object) -> IsolatedRun:
        if os.environ["ONEDNN_MAX_CPU_ISA"] == "ALL":
            raise SignwiseError("it crashed here: Illegal instruction")
        return isolated()

    monkeypatch.setattr("signwise.bench.measure.run_isolated", without_amx)
    found = compare(network, Plan(engines=[Numpy()], precisions=["float32"], batches=[1], seconds=0.01))
    assert not found.failures
    assert found.notes == ["numpy fallback runs without AMX, which this machine announces but cannot execute"]


@pytest.mark.parametrize(("option", "value"), [("batches", (0,)), ("threads", ()), ("seconds", 0.0)])
def test_a_plan_refuses_settings_that_are_not_positive(option: str, value: Any) -> None:
    with pytest.raises(SignwiseError, match=f"{option} must be"):
        Plan(engines=[], **{option: value})


@pytest.mark.slow
def test_a_file_is_measured_where_pytorch_cannot_be_imported(digits: Path) -> None:
    path = shipped.resolve("lenet5-mnist-1bit")
    (result,) = measure_without_torch([path], digits)
    assert result.size == path.stat().st_size
    assert 0 <= result.error <= 100 and result.seconds > 0


def test_blocking_torch_makes_its_import_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, object] = {"torch": object()}
    monkeypatch.setattr("signwise.bench.measure.sys.modules", modules)
    _block_torch()
    assert modules["torch"] is None
