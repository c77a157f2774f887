"""MNIST, which comes with the package, and Fashion-MNIST, which has the same form."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise.datasets.idx import parse_idx
from signwise.datasets.images import ImageData
from signwise.datasets.known_file import KnownFile
from signwise.errors import DataError

_EMBEDDED = Path(__file__).parent / "embedded"


@dataclass(frozen=True, kw_only=True)
class IdxDataset:
    """A data set of four IDX files in the layout of MNIST, raw or compressed.

    Args:
        name: the name on the command line.
        title: the name in print.
        classes: the names of the classes.
        train_images, train_labels, test_images, test_labels: the files, as they are when decompressed.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    train_images: KnownFile
    train_labels: KnownFile
    test_images: KnownFile
    test_labels: KnownFile
    image_shape: tuple[int, int, int] = (1, 28, 28)

    @property
    def files(self) -> tuple[KnownFile, KnownFile, KnownFile, KnownFile]:
        return self.train_images, self.train_labels, self.test_images, self.test_labels

    def load(self) -> ImageData:
        return self.read(_EMBEDDED)

    def read(self, folder: Path) -> ImageData:
        """Read the data set from the four files in ``folder``."""
        return ImageData(
            name=self.name,
            classes=self.classes,
            train_images=self._images(folder, self.train_images),
            train_labels=_array(folder, self.train_labels, rank=1).astype(np.int64),
            test_images=self._images(folder, self.test_images),
            test_labels=_array(folder, self.test_labels, rank=1).astype(np.int64),
        )

    def _images(self, folder: Path, file: KnownFile) -> npt.NDArray[np.uint8]:
        images = _array(folder, file, rank=3)[:, None]  # (N, H, W) -> (N, 1, H, W)
        if images.shape[1:] != self.image_shape:
            raise DataError(f"{folder / file.name} holds images of {images.shape[2:]}, expected {self.image_shape[1:]}")
        return images


def _gunzip(stored: bytes) -> bytes:
    try:
        return gzip.decompress(stored)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"a damaged gzip file: {error}") from error


def _unxz(stored: bytes) -> bytes:
    try:
        return lzma.decompress(stored)
    except lzma.LZMAError as error:
        raise DataError(f"a damaged xz file: {error}") from error


_PACKINGS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": _gunzip, ".xz": _unxz}


def _stored(folder: Path, file: KnownFile) -> tuple[Path, Callable[[bytes], bytes]]:
    for suffix, decompress in _PACKINGS.items():
        path = folder / (file.name + suffix)
        if path.is_file():
            return path, decompress
    raise DataError(f"{folder} has no {file.name}, neither raw nor as .gz or .xz")


def _array(folder: Path, file: KnownFile, *, rank: int) -> npt.NDArray[np.uint8]:
    path, decompress = _stored(folder, file)
    return parse_idx(file.read(path, decompress), rank=rank, source=str(path))


MNIST = IdxDataset(
    name="mnist",
    title="MNIST",
    classes=tuple("0123456789"),
    train_images=KnownFile("train-images-idx3-ubyte", "md5:6bbc9ace898e44ae57da46a324031adb", 47_040_016),
    train_labels=KnownFile("train-labels-idx1-ubyte", "md5:a25bea736e30d166cdddb491f175f624", 60_008),
    test_images=KnownFile("t10k-images-idx3-ubyte", "md5:2646ac647ad5339dbf082846283269ea", 7_840_016),
    test_labels=KnownFile("t10k-labels-idx1-ubyte", "md5:27ae3e4e09519cfbb04c329615203637", 10_008),
)
