from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from signwise.bench import ENGINES
from signwise.bench.engine import Precision, Runner
from signwise.bench.measure import Comparison, Failure, Plan, Row, Setting, compare
from signwise.bench.network import Network
from signwise.bench.report import as_data, table
from signwise.bench.signwise_engine import Numpy
from signwise.bench.timing import Timing
from signwise.bench.trial import Trial
from signwise.errors import SignwiseError

ONE, TWO = Setting(batch=1, threads=1), Setting(batch=16, threads=2)


class Peer(Numpy):
    """Stands for another engine, without a package to install."""

    name = "peer"
    title = "Peer"
    ours: ClassVar[bool] = False


def row(engine: str | Peer, precision: Precision, *seconds: float) -> Row:
    chosen = ENGINES[engine] if isinstance(engine, str) else engine
    timings = {
        setting: Timing(best=best, median=2 * best, runs=7) for setting, best in zip((ONE, TWO), seconds, strict=True)
    }
    return Row(
        engine=chosen, precision=precision, file_bytes=2_000_000, memory_bytes=8_600_000, difference=1e-7,
        timings=timings,
    )  # fmt: skip


@pytest.fixture
def comparison() -> Comparison:
    return Comparison(
        settings=[ONE, TWO],
        rows=[
            row("signwise", "float32", 0.004, 0.05),
            row("onnxruntime", "float32", 0.012, 0.06),
            row("openvino", "float32", 0.010, 0.07),
            row("signwise", "int8", 0.002, 0.03),
        ],
        failures=[Failure(engine=ENGINES["mnn"], precision="float32", reason="it crashed here: Aborted")],
        float_bytes=44_000_000,
        notes=["a thing to know"],
    )


def test_the_fastest_of_the_others_is_what_counts(comparison: Comparison) -> None:
    assert comparison.speedup("float32", ONE) == pytest.approx(2.5)
    assert comparison.speedup("float32", TWO) == pytest.approx(1.2)
    assert comparison.speedup("int8", ONE) is None


def test_the_table_shows_times_ratios_and_what_is_missing(comparison: Comparison) -> None:
    lines = table(comparison).splitlines()
    assert lines[0].split("  ")[0] == "engine"
    assert [line.split()[0] for line in lines[1:5]] == ["signwise", "ONNX", "OpenVINO", "signwise"]
    assert "12 ms   3.0x" in lines[2]
    assert "batch 1, 1 thread: 2.50 times as fast as OpenVINO float32" in lines
    assert "batch 16, 2 threads: 1.20 times as fast as ONNX Runtime float32" in lines
    assert "file: 22.0 times smaller than its float32 weights" in lines
    assert "note: a thing to know" in lines
    assert lines[-1] == "MNN float32 is missing: it crashed here: Aborted"


def test_the_data_holds_every_time_in_seconds(comparison: Comparison) -> None:
    data = json.loads(json.dumps(as_data(comparison)))
    assert data["rows"][1]["times"][1] == {"batch": 16, "threads": 2, "best": 0.06, "median": 0.12, "runs": 7}
    assert data["speedups"][0] == {"precision": "float32", "batch": 1, "threads": 1, "over_fastest": pytest.approx(2.5)}
    assert data["failures"][0]["engine"] == "mnn"


def test_the_chart_has_a_panel_a_setting_and_a_bar_an_engine(comparison: Comparison, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from signwise.bench.chart import draw
    from signwise.figures.style import save

    figure = draw(comparison, "net.sw")
    assert [len(axis.patches) for axis in figure.axes] == [4, 4]
    save(figure, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_engines_are_tried_apart_and_timed_together(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    monkeypatch.setitem(ENGINES, "peer", peer)

    def opened(path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        seen.append((precision, batch, threads))
        return lambda examples: examples

    def tried(*_: object, **__: object) -> Trial:
        return Trial(answers=np.zeros((1, 5), np.float32), peak_bytes=10**12)

    seen: list[tuple[str, int, int]] = []
    monkeypatch.setattr(peer, "open", opened)
    monkeypatch.setattr("signwise.bench.measure.trial", tried)
    plan = Plan(engines=[peer], precisions=["float32"], batches=[1, 2], threads=[1, 3], seconds=0.01)
    found = compare(network, plan)
    assert seen == [("float32", 1, 1), ("float32", 1, 3), ("float32", 2, 1), ("float32", 2, 3)]
    assert len(found.rows) == 1 and list(found.rows[0].timings) == found.settings
    assert found.rows[0].difference == pytest.approx(1.0)


def test_an_engine_that_crashes_is_listed_and_the_rest_is_measured(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried(engine: object, *_: object, **__: object) -> Trial:
        if isinstance(engine, Peer):
            raise SignwiseError("it crashed here: Aborted")
        return Trial(answers=np.zeros((1, 5), np.float32), peak_bytes=10**12)

    monkeypatch.setattr("signwise.bench.measure.trial", tried)
    plan = Plan(engines=[Peer(), Numpy()], precisions=["float32"], batches=[1], seconds=0.01)
    found = compare(network, plan)
    assert [failure.reason for failure in found.failures] == ["it crashed here: Aborted"]
    assert [measured.engine.name for measured in found.rows] == ["numpy"]


def test_an_illegal_instruction_is_tried_again_without_amx_and_noted(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "ALL")

    def tried(*_: object, **__: object) -> Trial:
        if os.environ["ONEDNN_MAX_CPU_ISA"] == "ALL":
            raise SignwiseError("it crashed here: Illegal instruction")
        return Trial(answers=np.zeros((1, 5), np.float32), peak_bytes=10**12)

    monkeypatch.setattr("signwise.bench.measure.trial", tried)
    found = compare(network, Plan(engines=[Numpy()], precisions=["float32"], batches=[1], seconds=0.01))
    assert not found.failures
    assert found.notes == ["numpy fallback runs without AMX, which this machine announces and does not execute"]


@pytest.mark.parametrize(("option", "value"), [("batches", (0,)), ("threads", ()), ("seconds", 0.0)])
def test_a_plan_refuses_what_cannot_be_measured(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{option} must be"):
        Plan(engines=[], **{option: value})
