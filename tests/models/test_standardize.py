"""Raw pixels to standardized ones."""

from __future__ import annotations

import pytest
import torch

from signwise.errors import SignwiseError
from signwise.models import Standardize


def test_standardized_images_have_zero_mean_and_unit_deviation() -> None:
    images = torch.randint(0, 256, (50, 3, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    scaled = images.double() / 255
    deviation, mean = torch.std_mean(scaled, (0, 2, 3), correction=0)
    out = Standardize(mean.tolist(), deviation.tolist())(images)
    assert out.dtype == torch.float32
    assert torch.allclose(out.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(out.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5)


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [([], [], "one value per channel"), ([0.5], [1, 1], "got 1 and 2"), ([0.5], [0.0], "std must be positive")],
)
def test_statistics_that_do_not_fit_are_refused(mean: list[float], std: list[float], message: str) -> None:
    with pytest.raises(SignwiseError, match=message):
        Standardize(mean, std)
