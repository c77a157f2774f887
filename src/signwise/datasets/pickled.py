"""An unpickler that admits byte arrays and plain containers, and nothing else.

A pickle is a program: it names functions and calls them. Here the few names that an array needs stand for inert classes
of this module, whatever the file does with them; every other name is refused. Not even numpy's own code sees the file.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.errors import DataError


class _ByteType:
    """Stands for ``numpy.dtype``; only the type of bytes is admitted."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        if code not in ("u1", b"u1", "|u1", b"|u1"):
            raise pickle.UnpicklingError(f"only arrays of bytes are admitted, not of {code!r}")

    def __setstate__(self, state: object) -> None:
        """The state tells byte order and alignment, which bytes do not have."""


class _ByteArray:
    """Stands for ``numpy.ndarray``, which is made empty and then told its state."""

    array: npt.NDArray[np.uint8] | None = None

    def __setstate__(self, state: tuple[int, tuple[int, ...], _ByteType, bool, bytes]) -> None:
        _, shape, kind, fortran_order, content = state
        if not isinstance(kind, _ByteType) or fortran_order or not isinstance(content, bytes):
            raise pickle.UnpicklingError("only arrays of bytes, row by row, are admitted")
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


def load_arrays(content: bytes, *, source: str) -> dict[str, Any]:
    """Unpickle a dictionary of byte arrays, lists, strings and numbers.

    Args:
        content: the pickle, of Python 2 or 3.
        source: the name of the file, for the error.

    Returns:
        The dictionary, its keys as text, its arrays as read-only numpy arrays; strings of Python 2 remain bytes.

    Raises:
        DataError: if it is not such a pickle.

    Example:
        >>> load_arrays(pickle.dumps({"labels": [1, 2]}), source="batch")
        {'labels': [1, 2]}
    """
    try:
        loaded = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    # A damaged pickle may raise nearly anything: the documentation of pickle gives no complete list.
    except Exception as error:
        raise DataError(f"{source} is not a pickle that can be read here: {error}") from error
    if not isinstance(loaded, dict):
        raise DataError(f"{source} should hold a dictionary, found {type(loaded).__name__}")
    return {_text(key): _plain(value) for key, value in loaded.items()}


def _text(key: object) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


def _plain(value: object) -> object:
    return value.array if isinstance(value, _ByteArray) else value
