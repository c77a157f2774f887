"""The forms of a network: float or packed weights, float32 or 8-bit activations, the same outputs."""

from __future__ import annotations

import pytest

from signwise.bench.network import (
    Network,
    from_program,
    listed,
    random_input,
    with_float_weights,
    without_quantization,
)
from signwise.program.program import Program


def test_float_weights_change_the_bytes_but_not_the_outputs(program: Program) -> None:
    float_program = with_float_weights(program)
    examples = listed(random_input(program, 2))
    assert float_program.reference(*examples) == pytest.approx(program.reference(*examples), rel=1e-5)
    signs = 8 * 72 + 12 * 72
    scales = 8 + 12
    assert program.float32_bytes == float_program.nbytes
    assert float_program.nbytes == program.nbytes - signs // 8 + 4 * signs - 4 * scales


def test_a_network_from_an_8_bit_file_has_the_float32_form_too(network: Network, program: Program) -> None:
    assert network.int8 is not None
    again = from_program(network.int8)
    assert again.int8 is network.int8
    assert without_quantization(network.int8).ops == program.ops == again.float32.ops
