from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signwise.errors import SignwiseError
from signwise.program.bits import pack_signs, unpack_signs


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 5), terms=st.integers(1, 40))
def test_signs_survive_packing(seed: int, rows: int, terms: int) -> None:
    original = np.random.default_rng(seed).choice([-1.0, 1.0], (rows, terms))
    packed = pack_signs(original)
    assert packed.shape == (rows, -(-terms // 8)) and packed.dtype == np.uint8
    np.testing.assert_array_equal(unpack_signs(packed, original.shape), original)
    assert not (packed[:, -1] >> (terms % 8 or 8)).any(), "pad bits are zero"


@pytest.mark.parametrize("number", [0.0, 0.5, np.nan, 2.0])
def test_only_signs_can_be_packed(number: float) -> None:
    with pytest.raises(SignwiseError, match="only -1 and \\+1"):
        pack_signs(np.array([[1.0, number]]))
