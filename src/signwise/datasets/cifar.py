"""The CIFAR files, in both forms that their publisher offers.

Binary: records of one label byte (CIFAR-10), or a coarse and a fine one (CIFAR-100), followed by 3072 bytes of pixels,
channel by channel. Pickled, as torchvision downloads them: a dictionary with the same pixels as an array of (N, 3072)
and the labels as a list.

A pickle is a program: it names functions and calls them. The unpickler here maps the few names that a byte array needs
to inert stand-ins defined in this module, and refuses every other name. Not even numpy's own code sees the file.

https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import io
import math
import pickle
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.datasets.images import Split
from signwise.datasets.known_file import KnownFile
from signwise.errors import DataError

_IMAGE = (3, 32, 32)
_PIXELS = 3 * 32 * 32

_Rows = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]  # (N, 3072) pixels, (N,) labels


@dataclass(frozen=True, kw_only=True)
class _CifarLayout(ABC):
    """Several training files and one test file in one folder.

    Args:
        folders: the usual names of the folder.
        train: the training files, in order.
        test: the test file.
    """

    folders: tuple[str, ...]
    train: tuple[KnownFile, ...]
    test: KnownFile

    @property
    def files(self) -> tuple[KnownFile, ...]:
        return *self.train, self.test

    def missing(self, folder: Path) -> list[str]:
        return [file.name for file in self.files if not (folder / file.name).is_file()]

    def read(self, folder: Path) -> tuple[Split, Split]:
        return self._split(folder, self.train), self._split(folder, (self.test,))

    def _split(self, folder: Path, files: tuple[KnownFile, ...]) -> Split:
        parts = [self._rows(folder / file.name, file) for file in files]
        return Split(
            images=np.concatenate([pixels for pixels, _ in parts]).reshape(-1, *_IMAGE),
            labels=np.concatenate([labels for _, labels in parts]),
        )

    @abstractmethod
    def _rows(self, path: Path, file: KnownFile) -> _Rows: ...


@dataclass(frozen=True, kw_only=True)
class BinaryLayout(_CifarLayout):
    """The binary form.

    Args:
        label_bytes: the number of label bytes at the start of a record; the last one is used.
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
    """The pickled form.

    Args:
        labels_key: the key of the labels in the dictionary.
    """

    labels_key: str

    def _rows(self, path: Path, file: KnownFile) -> _Rows:
        content = unpickle_arrays(file.read(path), source=str(path))
        pixels, labels = content.get("data"), content.get(self.labels_key)
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
            raise DataError(f"{path} should have an array 'data' of N x {_PIXELS} bytes")
        if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 256 for label in labels):
            raise DataError(f"{path} should have a list {self.labels_key!r} of integers from 0 to 255")
        return pixels, np.array(labels, np.int64)


def unpickle_arrays(content: bytes, *, source: str) -> dict[str, Any]:
    """Unpickle a dictionary of byte arrays, lists, strings and numbers, without running any code of the file.

    Args:
        content: the pickle, written by Python 2 or 3.
        source: the name of the file, for error messages.

    Returns:
        The dictionary. Its keys are text, its arrays read-only numpy arrays; strings from Python 2 remain bytes.

    Raises:
        DataError: if the content is not such a pickle.

    Example:
        >>> unpickle_arrays(pickle.dumps({"labels": [1, 2]}), source="batch")
        {'labels': [1, 2]}
    """
    try:
        loaded = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    # A damaged pickle may raise nearly any exception: the documentation of pickle gives no complete list.
    except Exception as error:
        raise DataError(f"{source} is not a pickle that can be read here: {error}") from error
    if not isinstance(loaded, dict):
        raise DataError(f"{source} should hold a dictionary, found {type(loaded).__name__}")
    return {_text(key): _plain(value) for key, value in loaded.items()}


class _ByteType:
    """Stand-in for ``numpy.dtype`` that accepts the type of bytes alone."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        if code not in ("u1", b"u1", "|u1", b"|u1"):
            raise pickle.UnpicklingError(f"only arrays of bytes are admitted, not of {code!r}")

    def __setstate__(self, state: object) -> None:
        """Ignore byte order and alignment: bytes have neither."""


class _ByteArray:
    """Stand-in for ``numpy.ndarray``: pickle creates it empty and then sets its state."""

    array: npt.NDArray[np.uint8] | None = None

    def __setstate__(self, state: tuple[int, tuple[int, ...], _ByteType, bool, bytes]) -> None:
        _, shape, kind, fortran_order, content = state
        if not isinstance(kind, _ByteType) or fortran_order or not isinstance(content, bytes):
            raise pickle.UnpicklingError("only arrays of bytes in row order are admitted")
        if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) != len(content):
            raise pickle.UnpicklingError(f"an array of {shape} cannot have {len(content)} bytes")
        self.array = np.frombuffer(content, np.uint8).reshape(shape)


def _reconstruct(*_: object) -> _ByteArray:
    return _ByteArray()


def _encode(text: str, encoding: str) -> bytes:
    # How Python 3 writes bytes in the old protocols; other encodings may run code of their own.
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"the encoding {encoding!r} is not admitted")
    return text.encode("latin-1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _ByteType,
    ("numpy", "ndarray"): _ByteArray,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,  # its name since numpy 2
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}; only arrays of bytes are admitted") from None


def _text(key: object) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


def _plain(value: object) -> object:
    return value.array if isinstance(value, _ByteArray) else value
