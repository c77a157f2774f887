from __future__ import annotations

import numpy as np
import pytest

from signwise.bench.network import with_float_weights
from signwise.bench.untrained import dense, untrained


@pytest.mark.parametrize("name", ["lenet5", "resnet20"])
def test_an_untrained_network_computes_what_its_model_computes_with_signs(name: str) -> None:
    built = untrained(name)
    assert built.difference < 1e-5
    # Its numbers neither vanish nor grow, or 8 bits would have nothing to round.
    answers = built.network.float32.reference(built.network.examples)
    assert 0.05 < np.abs(answers).max() < 50
    assert built.network.int8 is not None
    assert np.abs(built.network.int8.reference(built.network.examples) - answers).max() < 0.2 * np.abs(answers).max()


def test_an_untrained_network_is_the_same_every_time() -> None:
    first, second = (untrained("lenet5").network.float32 for _ in range(2))
    assert all((first.tensors[name] == second.tensors[name]).all() for name in first.tensors)


def test_a_dense_layer_has_one_bit_a_weight() -> None:
    built = dense(64)
    assert built.state_dict_bytes == 4 * 64 * 64 == with_float_weights(built.network.float32).nbytes
    assert built.network.float32.nbytes == 64 * 64 // 8
