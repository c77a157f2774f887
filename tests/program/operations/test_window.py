from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from signwise.errors import FormatError
from signwise.program.operations.window import padded_size, positions, window_shape


@given(size=st.integers(1, 60), kernel=st.integers(1, 9), stride=st.integers(1, 9), dilation=st.integers(1, 4))
def test_positions_count_the_windows_that_fit(size: int, kernel: int, stride: int, dilation: int) -> None:
    extent = dilation * (kernel - 1) + 1
    assume(extent <= size)
    assert positions(size, kernel, stride, dilation) == len(range(0, size - extent + 1, stride))


@pytest.mark.parametrize(("kernel", "side"), [((9, 3), "height of 8"), ((3, 10), "width of 9")])
def test_a_window_larger_than_the_padded_image_is_refused(kernel: tuple[int, int], side: str) -> None:
    with pytest.raises(FormatError, match=f"does not fit the padded {side}"):
        window_shape((3, 8, 9), kernel, (1, 1), (0, 0, 0, 0))


def test_padding_costs_a_copy_of_the_image_and_none_costs_nothing() -> None:
    assert padded_size([(2, 4, 5)], (1, 2, 0, 1)) == 2 * 5 * 8
    assert padded_size([(2, 4, 5)], (0, 0, 0, 0)) == 0
