"""Labelled images in memory, as numpy arrays: one split for training, one for testing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from signwise.errors import DataError

_CHUNK = 1000  # images per pass of the histogram, to keep its temporary arrays small


class Split(NamedTuple):
    """Images and their labels."""

    images: npt.NDArray[np.uint8]
    """(N, C, H, W) bytes."""
    labels: npt.NDArray[np.int64]
    """(N,) indices into the classes."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImageData:
    """A data set in memory; both splits are checked when it is built.

    Args:
        name: the name of the data set, a key of `signwise.datasets.DATASETS`.
        classes: the names of the classes; a label is an index into them.
        train: the images to train on.
        test: the images to test on, of the same shape.

    Example:
        >>> images, labels = np.zeros((2, 1, 4, 4), np.uint8), np.array([0, 1])
        >>> data = ImageData(name="none", classes=("a", "b"), train=Split(images, labels), test=Split(images, labels))
        >>> data
        ImageData(none: 2 training and 2 test images of 1x4x4, 2 classes)
        >>> data.train_images is data.train.images
        True
    """

    name: str
    classes: tuple[str, ...]
    train: Split
    test: Split

    def __post_init__(self) -> None:
        for part, (images, labels) in (("train", self.train), ("test", self.test)):
            if images.ndim != 4 or images.dtype != np.uint8 or len(images) == 0:
                raise DataError(f"{self.name}: {part} images must be (N, C, H, W) bytes, got {_describe(images)}")
            if labels.shape != (len(images),) or labels.dtype != np.int64:
                raise DataError(
                    f"{self.name}: {len(images)} {part} images need one label each, got {_describe(labels)}"
                )
            if labels.min() < 0 or labels.max() >= len(self.classes):
                raise DataError(
                    f"{self.name}: {part} labels must be in 0..{len(self.classes) - 1}, "
                    f"got {labels.min()}..{labels.max()}"
                )
        if self.train.images.shape[1:] != self.test.images.shape[1:]:
            raise DataError(
                f"{self.name}: train and test images differ in shape, "
                f"{self.train.images.shape[1:]} and {self.test.images.shape[1:]}"
            )

    @property
    def train_images(self) -> npt.NDArray[np.uint8]:
        """``train.images``: (N, C, H, W) bytes."""
        return self.train.images

    def examples(self, count: int) -> npt.NDArray[np.uint8]:
        """Up to ``count`` training images to choose scales on, spread evenly: some data sets are sorted by class."""
        step = max(1, len(self.train_images) // count)
        return self.train_images[::step][:count]

    @property
    def train_labels(self) -> npt.NDArray[np.int64]:
        """``train.labels``: (N,)."""
        return self.train.labels

    @property
    def test_images(self) -> npt.NDArray[np.uint8]:
        """``test.images``: (M, C, H, W) bytes."""
        return self.test.images

    @property
    def test_labels(self) -> npt.NDArray[np.int64]:
        """``test.labels``: (M,)."""
        return self.test.labels

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @property
    def mean(self) -> tuple[float, ...]:
        """The mean per channel of the training images, on the scale from 0 to 1."""
        return self._moments[0]

    @property
    def std(self) -> tuple[float, ...]:
        """The standard deviation per channel of the training images, on the scale from 0 to 1."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        # A histogram of bytes instead of a sum of floats: exact for any number of images in any order.
        levels = np.arange(256) / 255
        means, deviations = [], []
        for channel in range(self.train.images.shape[1]):
            counts = np.zeros(256, np.int64)
            for start in range(0, len(self.train.images), _CHUNK):
                pixels = self.train.images[start : start + _CHUNK, channel]
                counts += np.bincount(pixels.reshape(-1), minlength=256)
            share = counts / counts.sum()
            mean = float(share @ levels)
            means.append(mean)
            deviations.append(float(np.sqrt(share @ (levels - mean) ** 2)))
        return tuple(means), tuple(deviations)

    def __repr__(self) -> str:
        shape = "x".join(str(size) for size in self.image_shape)
        return (
            f"ImageData({self.name}: {len(self.train.images)} training and {len(self.test.images)} test images "
            f"of {shape}, {len(self.classes)} classes)"
        )


def _describe(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"
