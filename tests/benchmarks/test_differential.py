"""Native against numpy on random programs of all operations: a short run of the recorded one, and its teeth."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from signwise.program import operations as ops
from signwise.runtime import native

pytestmark = pytest.mark.skipif(not native.available_isas(), reason="needs the native library")


@pytest.fixture(scope="module")
def script(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("differential")


@pytest.mark.parametrize("isa", native.available_isas())
def test_random_programs_of_any_rank_equal_numpy_on_every_instruction_set(
    script: ModuleType, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNWISE_ISA", isa)
    counted = script.run(isa, range(100_000, 100_060))
    assert counted.programs == 60 and counted.largest < 1e-5


@pytest.mark.slow
def test_the_random_programs_use_every_operation(script: ModuleType) -> None:
    kinds = {operation.kind for seed in range(400) for operation in script.Writer(seed, eight_bits=False).program().ops}
    assert kinds == set(ops.KINDS)


@pytest.mark.parametrize("eight_bits", [False, True])
def test_a_value_that_is_wrong_by_little_is_noticed(
    script: ModuleType, eight_bits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ops.Quantized(type="int8", scale=0.03125) if eight_bits else None
    affine = ops.Affine(inputs=(0,), scale="s", bias="b", out=out)
    tensors = {"s": np.ones(3, np.float32), "b": np.zeros(3, np.float32)}
    program = script.Program(input_shape=(3,), ops=(affine,), tensors=tensors, output=1)
    examples = [np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)]
    script.compare(program, examples, 1, script.Counted())
    right: Any = script.all_values

    def wrong(*arguments: Any) -> Any:
        values = right(*arguments)
        values[1] = values[1].copy()
        values[1][2, 1] += 0.03125 if eight_bits else 0.001
        return values

    monkeypatch.setattr(script, "all_values", wrong)
    with pytest.raises(AssertionError, match="Affine"):
        script.compare(program, examples, 1, script.Counted())
