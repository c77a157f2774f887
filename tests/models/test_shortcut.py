"""The shortcut of a residual block."""

from __future__ import annotations

import pytest
import torch

from signwise.errors import SignwiseError
from signwise.models.shortcut import Shortcut


def test_a_shortcut_of_the_same_shape_is_the_identity() -> None:
    images = torch.randn(2, 3, 4, 4)
    assert Shortcut(3, 3)(images) is images


def test_a_shortcut_averages_two_by_two_pixels_and_appends_zero_channels() -> None:
    images = torch.randn(2, 3, 6, 4)
    out = Shortcut(3, 5, stride=2)(images)
    assert out.shape == (2, 5, 3, 2)
    assert torch.allclose(out[:, :3], images.unflatten(2, (3, 2)).unflatten(4, (2, 2)).mean((3, 5)))
    assert (out[:, 3:] == 0).all()


def test_a_shortcut_has_no_parameters() -> None:
    assert not Shortcut(3, 5, stride=2).state_dict()


@pytest.mark.parametrize(
    ("outputs", "stride", "message"), [(2, 1, "outputs must be at least inputs"), (3, 4, "stride")]
)
def test_an_impossible_shortcut_is_refused(outputs: int, stride: int, message: str) -> None:
    with pytest.raises(SignwiseError, match=message):
        Shortcut(3, outputs, stride=stride)
