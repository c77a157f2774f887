"""IDX, the format of the MNIST files.

00 00 08 rank | rank sizes, 32-bit big-endian | the array, one byte per value
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise.datasets.images import Split
from signwise.datasets.known_file import KnownFile
from signwise.errors import DataError

_UNSIGNED_BYTES = 0x08


def parse_idx(content: bytes, *, rank: int, source: str) -> npt.NDArray[np.uint8]:
    """The array in an IDX file of bytes.

    Args:
        content: the whole file, decompressed.
        rank: the required number of dimensions: 1 for labels, 3 for images.
        source: the name of the file, for error messages.

    Returns:
        A copy of the array.

    Raises:
        DataError: if the content is not IDX bytes of that rank, or its length disagrees with the header.

    Example:
        >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), rank=1, source="labels").tolist()
        [7, 9]
    """
    header = 4 + 4 * rank
    if len(content) < header:
        raise DataError(f"{source} is cut short: an IDX header has {header} bytes, found {len(content)}")
    if content[:4] != bytes([0, 0, _UNSIGNED_BYTES, rank]):
        raise DataError(f"{source} is not an IDX file of rank {rank}: it begins with {content[:4].hex(' ')}")
    shape: tuple[int, ...] = struct.unpack(f">{rank}I", content[4:header])
    expected = header + math.prod(shape)
    if len(content) != expected:
        sizes = " x ".join(str(size) for size in shape)
        raise DataError(f"{source} should have {expected:,} bytes for {sizes} values, found {len(content):,}")
    return np.array(np.frombuffer(content, np.uint8, offset=header).reshape(shape), np.uint8)


@dataclass(frozen=True, kw_only=True)
class IdxLayout:
    """Four IDX files in one folder, each raw or compressed as ``.gz`` or ``.xz``.

    Args:
        folders: the usual names of the folder.
        train: the files of the training images and labels, as they are when decompressed.
        test: the files of the test images and labels.
    """

    folders: tuple[str, ...]
    train: tuple[KnownFile, KnownFile]
    test: tuple[KnownFile, KnownFile]

    @property
    def files(self) -> tuple[KnownFile, ...]:
        return *self.train, *self.test

    def missing(self, folder: Path) -> list[str]:
        return [file.name for file in self.files if _stored(folder, file) is None]

    def read(self, folder: Path) -> tuple[Split, Split]:
        return _split(folder, *self.train), _split(folder, *self.test)


def _stored(folder: Path, file: KnownFile) -> Path | None:
    paths = (folder / (file.name + suffix) for suffix in ("", ".gz", ".xz"))
    return next((path for path in paths if path.is_file()), None)


def _split(folder: Path, images: KnownFile, labels: KnownFile) -> Split:
    return Split(
        images=_read(folder, images, rank=3)[:, None],  # (N, H, W) -> (N, 1, H, W)
        labels=_read(folder, labels, rank=1).astype(np.int64),
    )


def _read(folder: Path, file: KnownFile, *, rank: int) -> npt.NDArray[np.uint8]:
    path = _stored(folder, file)
    if path is None:
        raise DataError(f"{folder / file.name} is missing")
    content = file.read(path, compressed=path.name != file.name)
    return parse_idx(content, rank=rank, source=str(path))
