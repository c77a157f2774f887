"""Small programs with every kind of layer that engines must agree on."""

from __future__ import annotations

import numpy as np
import pytest

from signwise.bench.network import Network, from_program
from signwise.program import operations as ops
from signwise.program.bits import pack_signs
from signwise.program.program import Program


def small_program() -> Program:
    """Pixels, a float layer, two binary ones with a residual, pools, appended channels, a dense layer."""
    draw = np.random.default_rng(0)

    def numbers(*shape: int) -> np.ndarray:
        return draw.standard_normal(shape).astype(np.float32)

    tensors = {
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
    square = {"kernel": (3, 3), "padding": (1, 1, 1, 1)}
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
