"""A small program with every kind of layer that engines must agree on, and a comparison to report."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from signwise.bench.engines import Precision
from signwise.bench.isolated import ENGINES
from signwise.bench.measure import Comparison, Failure, Row, Setting
from signwise.bench.network import Network, from_program
from signwise.bench.timing import Timing
from signwise.program import operations as ops
from signwise.program.operations import pack_signs
from signwise.program.program import Program


def small_program() -> Program:
    """Pixels, a float layer, two binary layers with a residual, pools, padded channels, a dense layer."""
    draw = np.random.default_rng(0)

    def numbers(*shape: int) -> npt.NDArray[np.float32]:
        return draw.standard_normal(shape).astype(np.float32)

    tensors: dict[str, npt.NDArray[Any]] = {
        "pixel.scale": np.full(3, 1 / 64, np.float32),
        "pixel.bias": np.full(3, -2, np.float32),
        "first": numbers(8, 3, 3, 3) / 4,
        "second": pack_signs(draw.choice([-1, 1], (8, 72))),
        "second.scale": np.full(8, 0.1, np.float32),
        "second.bias": numbers(8) / 4,
        "third": pack_signs(draw.choice([-1, 1], (12, 72))),
        "third.scale": np.full(12, 0.1, np.float32),
        "last": numbers(5, 12) / 4,
        "last.bias": numbers(5),
    }
    square: dict[str, Any] = {"kernel": (3, 3), "padding": (1, 1, 1, 1)}
    operations = (
        ops.Affine(inputs=(0,), scale="pixel.scale", bias="pixel.bias"),
        ops.Conv(inputs=(1,), weight="first", bits=32, out_channels=8, relu=True, **square),
        ops.Conv(
            inputs=(2, 2), weight="second", bits=1, scale="second.scale", bias="second.bias", out_channels=8, relu=True,
            **square,
        ),
        ops.AvgPool(inputs=(3,), kernel=(2, 2), stride=(2, 2)),
        ops.PadChannels(inputs=(4,), before=0, after=4),
        ops.Conv(
            inputs=(3, 5), weight="third", bits=1, scale="third.scale", out_channels=12, stride=(2, 2), relu=True,
            **square,
        ),
        ops.MaxPool(inputs=(6,), kernel=(2, 2), stride=(2, 2)),
        ops.GlobalPool(inputs=(7,)),
        ops.Dense(inputs=(8,), weight="last", bits=32, bias="last.bias", out_features=5, in_features=12),
    )  # fmt: skip
    return Program(input_shape=(3, 8, 8), ops=operations, tensors=tensors, output=len(operations))


@pytest.fixture(scope="session")
def program() -> Program:
    return small_program()


@pytest.fixture(scope="session")
def network(program: Program) -> Network:
    return from_program(program)


def _row(engine: str, precision: Precision, *seconds: float) -> Row:
    settings = (Setting(batch=1, threads=1), Setting(batch=16, threads=2))
    timings = {
        setting: Timing(best=best, median=2 * best, runs=7) for setting, best in zip(settings, seconds, strict=True)
    }
    sizes = {"file_bytes": 2_000_000, "memory_bytes": 8_600_000}
    return Row(engine=ENGINES[engine], precision=precision, difference=1e-7, timings=timings, **sizes)


@pytest.fixture
def comparison() -> Comparison:
    rows = [
        _row("signwise", "float32", 0.004, 0.05),
        _row("onnxruntime", "float32", 0.012, 0.06),
        _row("openvino", "float32", 0.010, 0.07),
        _row("signwise", "int8", 0.002, 0.03),
    ]
    return Comparison(
        settings=list(rows[0].timings),
        rows=rows,
        failures=[Failure(engine=ENGINES["mnn"], precision="float32", reason="it crashed here: Aborted")],
        float_bytes=44_000_000,
        notes=["a thing to know"],
    )
