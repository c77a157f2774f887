"""The CIFAR files, in both forms that their publisher offers.

Binary: records of one label byte (CIFAR-10), or a coarse and a fine one (CIFAR-100), and 3072 bytes of pixels, channel
by channel. Pickled: a dictionary with the same pixels as an array of (N, 3072) and the labels as a list.

https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise.datasets.images import Arrays
from signwise.datasets.known_file import KnownFile
from signwise.datasets.pickled import load_arrays
from signwise.errors import DataError

_IMAGE = (3, 32, 32)
_PIXELS = 3 * 32 * 32

_Rows = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]  # (N, 3072) pixels, (N,) labels


@dataclass(frozen=True, kw_only=True)
class _CifarLayout(ABC):
    """Some files for training and one for the test, in one folder.

    Args:
        folders: the names that the folder usually has.
        train: the files for training, in order.
        test: the file for the test.
    """

    folders: tuple[str, ...]
    train: tuple[KnownFile, ...]
    test: KnownFile

    @property
    def files(self) -> tuple[KnownFile, ...]:
        return *self.train, self.test

    def missing(self, folder: Path) -> list[str]:
        return [file.name for file in self.files if not (folder / file.name).is_file()]

    def read(self, folder: Path) -> Arrays:
        parts = [self._rows(folder / file.name, file) for file in self.train]
        pixels, labels = self._rows(folder / self.test.name, self.test)
        return Arrays(
            train_images=np.concatenate([part for part, _ in parts]).reshape(-1, *_IMAGE),
            train_labels=np.concatenate([part for _, part in parts]),
            test_images=pixels.reshape(-1, *_IMAGE).copy(),
            test_labels=labels,
        )

    @abstractmethod
    def _rows(self, path: Path, file: KnownFile) -> _Rows: ...


@dataclass(frozen=True, kw_only=True)
class BinaryLayout(_CifarLayout):
    """The binary form.

    Args:
        label_bytes: how many labels a record begins with; the last of them is used.
    """

    label_bytes: int

    def _rows(self, path: Path, file: KnownFile) -> _Rows:
        content = file.read(path)
        record = self.label_bytes + _PIXELS
        if not content or len(content) % record:
            raise DataError(f"{path} should have whole records of {record} bytes, found {len(content):,} bytes")
        rows = np.frombuffer(content, np.uint8).reshape(-1, record)
        return rows[:, self.label_bytes :], rows[:, self.label_bytes - 1].astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class PickledLayout(_CifarLayout):
    """The pickled form, which torchvision leaves behind.

    Args:
        labels_key: the key of the labels in the dictionary.
    """

    labels_key: str

    def _rows(self, path: Path, file: KnownFile) -> _Rows:
        content = load_arrays(file.read(path), source=str(path))
        pixels, labels = content.get("data"), content.get(self.labels_key)
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
            raise DataError(f"{path} should have an array 'data' of N x {_PIXELS} bytes")
        if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 256 for label in labels):
            raise DataError(f"{path} should have a list {self.labels_key!r} of small whole numbers")
        return pixels, np.array(labels, np.int64)
