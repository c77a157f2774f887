"""The container: what it refuses, and its statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signwise.datasets import ImageData
from signwise.errors import DataError


def image_data(**changes: Any) -> ImageData:
    """Three training and two test images of 2x4x4, two classes."""
    rng = np.random.default_rng(0)
    fields = {
        "train_images": rng.integers(0, 256, (3, 2, 4, 4), dtype=np.uint8),
        "train_labels": np.array([0, 1, 1]),
        "test_images": rng.integers(0, 256, (2, 2, 4, 4), dtype=np.uint8),
        "test_labels": np.array([1, 0]),
    }
    return ImageData(name="small", classes=("a", "b"), **(fields | changes))


@given(count=st.integers(1, 40), channels=st.integers(1, 4), high=st.integers(1, 256), seed=st.integers(0, 9))
def test_mean_and_deviation_are_those_of_the_training_pixels_by_channel(count, channels, high, seed):
    images = np.random.default_rng(seed).integers(0, high, (count, channels, 3, 5), dtype=np.uint8)
    data = image_data(
        train_images=images,
        train_labels=np.zeros(count, np.int64),
        test_images=images[:2],
        test_labels=np.zeros(min(count, 2), np.int64),
    )
    assert data.mean == pytest.approx((images / 255).mean((0, 2, 3)), abs=1e-12)
    assert data.std == pytest.approx((images / 255).std((0, 2, 3)), abs=1e-12)


def test_more_images_than_one_pass_of_the_histogram_are_all_counted():
    images = np.zeros((1001, 1, 2, 2), np.uint8)
    images[1000] = 255
    data = image_data(
        train_images=images,
        train_labels=np.zeros(1001, np.int64),
        test_images=images[:1],
        test_labels=np.zeros(1, np.int64),
    )
    assert data.mean == pytest.approx((1 / 1001,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_labels": np.array([0, 1])}, "3 train images need one label each"),
        ({"test_labels": np.array([0, 2])}, r"test labels must be in 0..1, got 0..2"),
        ({"train_labels": np.array([0, -1, 1])}, r"train labels must be in 0..1, got -1..1"),
        ({"train_images": np.zeros((3, 2, 4, 4))}, "train images must be .* bytes, got float64"),
        ({"train_images": np.zeros((0, 2, 4, 4), np.uint8)}, "train images must be"),
        ({"test_images": np.zeros((2, 2, 4, 5), np.uint8)}, "differ in shape"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message):
        image_data(**changes)
