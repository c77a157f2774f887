"""The C export on emulated Cortex-M cores: the integers of Python, and how many instructions they take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import signwise as sw
from signwise.export import to_c
from signwise.program import IntegerProgram
from tools import cortex_m

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(cortex_m.missing_tools()), reason=f"not installed: {cortex_m.missing_tools()}"),
]


@pytest.fixture(scope="module")
def program() -> IntegerProgram:
    torch.manual_seed(0)
    model = sw.models.tiny_cnn()
    sw.binarize_(model)
    examples = sw.datasets.load("mnist").train_images[:8].astype(np.float32)
    return sw.compile(model, torch.zeros(1, 1, 28, 28)).to_integers(examples)


@pytest.mark.parametrize("core", cortex_m.BOARDS)
def test_a_core_gives_the_integers_of_python_within_its_budget(
    core: str, program: IntegerProgram, tmp_path: Path
) -> None:
    images = sw.datasets.load("mnist").test_images[:2]
    inputs = (program.as_bytes(images).astype(np.int16) - 128).astype(np.int8)
    source = to_c(program)
    found = cortex_m.measure(source, inputs, core, tmp_path)
    np.testing.assert_array_equal(found.scores, program.run(images))
    assert 500_000 < max(found.instructions) < (6_000_000 if core == "cortex-m0" else 3_000_000)
    assert source.weight_bytes < found.flash_bytes < 12_500 and source.arena_bytes + found.stack_bytes < 12_000


def test_the_tiny_network_takes_less_than_11_kilobytes_of_flash_compiled_for_size(
    program: IntegerProgram, tmp_path: Path
) -> None:
    images = np.zeros((1, program.as_bytes(np.zeros((1, 1, 28, 28))).size), np.int8)
    assert cortex_m.measure(to_c(program), images, "cortex-m4", tmp_path, "-Os").flash_bytes < 11_000


def test_resnet8_takes_less_than_one_instruction_per_multiply_add_and_20_kilobytes_of_flash(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32))
    program = sw.Program.load("resnet8-cifar10-1bit").to_integers(images)
    inputs = (program.as_bytes(images).astype(np.int16) - 128).astype(np.int8)
    found = cortex_m.measure(to_c(program), inputs, "cortex-m4", tmp_path)
    np.testing.assert_array_equal(found.scores, program.run(images))
    assert 1_000_000 < max(found.instructions) < 12_239_488  # its multiply-adds
    assert found.flash_bytes < 20_000
