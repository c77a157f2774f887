from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from signwise.packing.bits import pack_bits, unpack_bits  # noqa: E402
from signwise.program.bits import pack_signs  # noqa: E402


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 4), terms=st.integers(1, 40))
def test_tensors_and_arrays_pack_to_the_same_bytes_and_back(seed, rows, terms):
    signs = np.where(np.random.default_rng(seed).random((rows, terms)) < 0.5, -1, 1)
    bits = pack_bits(torch.tensor(signs))
    np.testing.assert_array_equal(bits, pack_signs(signs))
    np.testing.assert_array_equal(unpack_bits(bits, signs.shape), signs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_signs_come_back_in_the_type_that_is_asked_for(dtype):
    signs = torch.tensor([[1, -1, 1, 1, -1, -1, 1, -1, 1]])
    unpacked = unpack_bits(pack_bits(signs), (1, 3, 3), dtype)
    assert unpacked.dtype == dtype and unpacked.shape == (1, 3, 3)
    assert torch.equal(unpacked.flatten().long(), signs[0])
