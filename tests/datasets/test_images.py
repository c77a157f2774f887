"""The container: what it refuses, and its statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signwise.datasets import ImageData, Split
from signwise.errors import DataError

Images = npt.NDArray[np.uint8]

RNG = np.random.default_rng(0)
TRAIN = Split(RNG.integers(0, 256, (3, 2, 4, 4), dtype=np.uint8), np.array([0, 1, 1]))
TEST = Split(RNG.integers(0, 256, (2, 2, 4, 4), dtype=np.uint8), np.array([1, 0]))

FLOATS: Any = np.zeros((3, 2, 4, 4))  # of another type than Split declares


def image_data(train: Split = TRAIN, test: Split = TEST) -> ImageData:
    """Three training and two test images of 2x4x4, two classes."""
    return ImageData(name="small", classes=("a", "b"), train=train, test=test)


def unlabelled(images: Images) -> Split:
    return Split(images, np.zeros(len(images), np.int64))


@given(count=st.integers(1, 40), channels=st.integers(1, 4), high=st.integers(1, 256), seed=st.integers(0, 9))
def test_mean_and_deviation_are_those_of_the_training_pixels_by_channel(
    count: int, channels: int, high: int, seed: int
) -> None:
    images = np.random.default_rng(seed).integers(0, high, (count, channels, 3, 5), dtype=np.uint8)
    data = image_data(unlabelled(images), unlabelled(images[:2]))
    assert data.mean == pytest.approx((images / 255).mean((0, 2, 3)), abs=1e-12)
    assert data.std == pytest.approx((images / 255).std((0, 2, 3)), abs=1e-12)


def test_more_images_than_one_pass_of_the_histogram_are_all_counted() -> None:
    images = np.zeros((1001, 1, 2, 2), np.uint8)
    images[1000] = 255
    assert image_data(unlabelled(images), unlabelled(images[:1])).mean == pytest.approx((1 / 1001,))


def test_each_array_is_also_reachable_by_one_name() -> None:
    data = image_data()
    assert data.train_images is data.train.images and data.train_labels is data.train.labels
    assert data.test_images is data.test.images and data.test_labels is data.test.labels
    assert data.image_shape == (2, 4, 4)


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (TRAIN._replace(labels=np.array([0, 1])), TEST, "3 train images need one label each"),
        (TRAIN, TEST._replace(labels=np.array([0, 2])), r"test labels must be in 0..1, got 0..2"),
        (TRAIN._replace(labels=np.array([0, -1, 1])), TEST, r"train labels must be in 0..1, got -1..1"),
        (TRAIN._replace(images=FLOATS), TEST, "train images must be .* bytes, got float64"),
        (TRAIN._replace(images=np.zeros((0, 2, 4, 4), np.uint8)), TEST, "train images must be"),
        (
            TRAIN,
            TEST._replace(images=np.zeros((2, 2, 4, 5), np.uint8)),
            r"differ in shape, \(2, 4, 4\) and \(2, 4, 5\)",
        ),
    ],
)
def test_splits_that_do_not_fit_together_are_refused(train: Split, test: Split, message: str) -> None:
    with pytest.raises(DataError, match=message):
        image_data(train, test)
