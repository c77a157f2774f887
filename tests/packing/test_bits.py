from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from signwise.errors import SignwiseError
from signwise.packing.bits import pack_signs, unpack_signs
from signwise.program import bits as layout


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 4), terms=st.integers(1, 40))
def test_tensors_and_arrays_pack_to_the_same_bytes_and_back(seed: int, rows: int, terms: int) -> None:
    signs = np.where(np.random.default_rng(seed).random((rows, terms)) < 0.5, -1, 1)
    bits = pack_signs(torch.tensor(signs))
    np.testing.assert_array_equal(bits, layout.pack_signs(signs))
    np.testing.assert_array_equal(unpack_signs(bits, signs.shape), signs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_signs_come_back_in_the_requested_type(dtype: torch.dtype) -> None:
    signs = torch.tensor([[1, -1, 1, 1, -1, -1, 1, -1, 1]], dtype=dtype)
    unpacked = unpack_signs(pack_signs(signs), (1, 3, 3), dtype)
    assert unpacked.dtype == dtype and unpacked.shape == (1, 3, 3)
    assert torch.equal(unpacked.flatten(), signs[0])


def test_only_signs_can_be_packed() -> None:
    with pytest.raises(SignwiseError, match="only -1 and \\+1"):
        pack_signs(torch.tensor([[1.0, 0.0]]))
