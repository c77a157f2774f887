"""A data set of labelled images, in memory, as numpy arrays: nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from signwise.errors import DataError

_CHUNK = 1000  # images a pass of the histogram, to keep its temporary arrays small


class Arrays(NamedTuple):
    """What the files of a data set hold: (N, C, H, W) bytes and (N,) int64 labels, twice."""

    train_images: npt.NDArray[np.uint8]
    train_labels: npt.NDArray[np.int64]
    test_images: npt.NDArray[np.uint8]
    test_labels: npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImageData:
    """Images and labels for training and for the test, checked to fit together.

    Args:
        name: the name of the data set, as in `signwise.datasets.NAMES`.
        classes: the names of the classes; a label is an index into them.
        train_images: (N, C, H, W) bytes.
        train_labels: (N,) int64.
        test_images: (M, C, H, W) bytes.
        test_labels: (M,) int64.

    Example:
        >>> images, labels = np.zeros((2, 1, 4, 4), np.uint8), np.array([0, 1])
        >>> ImageData(name="none", classes=("a", "b"), train_images=images, train_labels=labels,
        ...           test_images=images[:1], test_labels=labels[:1])
        ImageData(none: 2 training and 1 test images of 1x4x4, 2 classes)
    """

    name: str
    classes: tuple[str, ...]
    train_images: npt.NDArray[np.uint8]
    train_labels: npt.NDArray[np.int64]
    test_images: npt.NDArray[np.uint8]
    test_labels: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        for part, images, labels in (
            ("train", self.train_images, self.train_labels),
            ("test", self.test_images, self.test_labels),
        ):
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
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            raise DataError(f"{self.name}: train and test images differ in shape")

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width

    @property
    def mean(self) -> tuple[float, ...]:
        """The mean of each channel of the training images, on the scale from 0 to 1."""
        return self._moments[0]

    @property
    def std(self) -> tuple[float, ...]:
        """The standard deviation of each channel of the training images, on the scale from 0 to 1."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        # Bytes are counted, not summed up as floats: exact, whatever the number of images and their order.
        levels = np.arange(256) / 255
        means, deviations = [], []
        for channel in range(self.train_images.shape[1]):
            counts = np.zeros(256, np.int64)
            for start in range(0, len(self.train_images), _CHUNK):
                pixels = self.train_images[start : start + _CHUNK, channel]
                counts += np.bincount(pixels.reshape(-1), minlength=256)
            share = counts / counts.sum()
            mean = float(share @ levels)
            means.append(mean)
            deviations.append(float(np.sqrt(share @ (levels - mean) ** 2)))
        return tuple(means), tuple(deviations)

    def __repr__(self) -> str:
        shape = "x".join(str(size) for size in self.image_shape)
        return (
            f"ImageData({self.name}: {len(self.train_images)} training and {len(self.test_images)} test images "
            f"of {shape}, {len(self.classes)} classes)"
        )


def _describe(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"
