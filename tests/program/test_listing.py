from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

from signwise.program import Program
from signwise.program import operations as ops

sample: Program = runpy.run_path(str(Path(__file__).parents[1] / "fuzz_file.py"))["sample_program"]()


def test_the_bytes_of_the_rows_add_up_to_those_of_the_tensors() -> None:
    rows = sample.rows()
    assert [row.value for row in rows] == list(range(1, len(sample.ops) + 1))
    assert sum(row.bytes for row in rows) == sample.nbytes


def test_a_row_names_the_module_that_its_tensors_came_from() -> None:
    row = sample.rows()[2]
    assert (row.op, row.layer, row.shape, row.type, row.bits, row.weights) == (
        "conv",
        "block",
        (4, 9, 8),
        "uint8",
        1,
        72,
    )
    assert sample.rows()[3].layer == "" and sample.rows()[3].bits is None


def test_a_shared_weight_counts_once_and_its_second_use_keeps_its_module() -> None:
    layer = {"weight": "block.conv.weight", "bits": 1, "out_features": 8, "in_features": 8}
    program = Program(
        input_shape=(8,),
        ops=(
            ops.Dense(inputs=(0,), scale="block.conv.scale", **layer),  # type: ignore[arg-type]
            ops.Dense(inputs=(1,), scale="block.conv.scale.2", **layer),  # type: ignore[arg-type]
        ),
        tensors={
            "block.conv.weight": np.zeros((8, 1), np.uint8),
            "block.conv.scale": np.ones(8, np.float32),
            "block.conv.scale.2": np.ones(8, np.float32),
        },
        output=2,
    )
    assert [(row.layer, row.bytes) for row in program.rows()] == [("block.conv", 40), ("block.conv", 32)]
