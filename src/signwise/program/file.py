"""The ``.sw`` file: the JSON text of a program and its tensors in a safetensors container.

``docs/file-format.md`` specifies the format. Writing is deterministic: equal programs give equal bytes on every
machine. Reading trusts nothing: whatever the bytes are, the result is a text with well-formed tensors or a
:class:`~signwise.errors.FormatError` that says what is wrong.
"""

from __future__ import annotations

import json
import os
import reprlib
import stat
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from signwise.atomic import atomic_write
from signwise.errors import FormatError, SignwiseError
from signwise.program.document import check_json_size
from signwise.program.operations import Tensors

KEY = "signwise"
LARGEST_HEADER = 2**24

_TYPES = {np.dtype(np.float32): "F32", np.dtype(np.uint8): "U8"}


def write_file(path: str | PathLike[str], data: bytes) -> None:
    """Write the bytes to ``path``, all of them or none."""
    try:
        with atomic_write(path) as file:
            file.write(data)
    except OSError as error:
        raise SignwiseError(f"cannot write {fspath(path)!r}: {error.strerror}") from None


def read_file(path: str | PathLike[str]) -> bytes:
    """The bytes of the file at ``path``; devices, pipes and folders are refused."""
    try:
        # Opening a pipe would wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SignwiseError(f"cannot read {fspath(path)!r}: not a regular file")
            return file.read()
    except OSError as error:
        raise SignwiseError(f"cannot read {fspath(path)!r}: {error.strerror}") from None
    except MemoryError:
        raise SignwiseError(f"cannot read {fspath(path)!r}: larger than the memory") from None


def encode(text: str, tensors: Tensors) -> bytes:
    """The bytes of the file.

    Args:
        text: of the program, see :mod:`signwise.program.document`.
        tensors: float32 and uint8, by name.

    Example:
        >>> decode(encode("{}", {"w": np.zeros(2, np.uint8)}))
        ('{}', {'w': array([0, 0], dtype=uint8)})
    """
    header: dict[str, Any] = {"__metadata__": {KEY: text}}
    # float32 first, so that every number is aligned when the file is mapped into memory.
    names = sorted(tensors, key=lambda name: (tensors[name].dtype != np.float32, name))
    parts, end = [], 0
    for name in names:
        tensor = tensors[name]
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        parts.append(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes())
    head = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    head += b" " * (-len(head) % 8)
    return b"".join([len(head).to_bytes(8, "little"), head, *parts])


def decode(data: bytes) -> tuple[str, dict[str, npt.NDArray[Any]]]:
    """The text of the program and its tensors, or a :class:`~signwise.errors.FormatError`."""
    header = _read_header(data)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not isinstance(metadata.get(KEY), str):
        raise FormatError(f"a safetensors file without a program: its metadata has no text under {KEY!r}")
    if len(metadata) != 1:
        raise FormatError(f"the metadata must have the key {KEY!r} alone, got {reprlib.repr(sorted(metadata))}")
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.get("dtype") not in ("F32", "U8"):
            raise FormatError(f"tensor {reprlib.repr(name)} must have dtype F32 or U8, got {reprlib.repr(entry)}")
    return metadata[KEY], _read_tensors(data)


def _read_header(data: bytes) -> dict[str, Any]:
    if data[:4] == b"PK\x03\x04":
        raise FormatError("a zip archive, perhaps a PyTorch checkpoint, not a .sw file: make one with signwise compile")
    if len(data) < 8:
        raise FormatError(f"too short for a .sw file: {len(data)} bytes")
    length = int.from_bytes(data[:8], "little")
    if length > LARGEST_HEADER:
        raise FormatError(f"not a .sw file: a header of {length} bytes, the limit is {LARGEST_HEADER}")
    if length > len(data) - 8:
        raise FormatError(f"cut short: the header needs {length} bytes, the file has {len(data) - 8} after its first 8")
    try:
        text = data[8 : 8 + length].decode("utf-8")
        check_json_size(text)
        header = json.loads(text, object_pairs_hook=_unique)
    except FormatError as error:
        raise FormatError(f"not a .sw file: {error}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not a .sw file: the header is not valid JSON ({error})") from None
    if not isinstance(header, dict):
        raise FormatError(f"not a .sw file: the header must be a JSON object, got {reprlib.repr(header)}")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a name is repeated")
    return unique


def _read_tensors(data: bytes) -> dict[str, npt.NDArray[Any]]:
    try:
        # Refuses overlaps, gaps, bytes beyond the end and sizes that do not follow from the shape.
        return load_tensors(data)
    except (SafetensorError, ValueError, OverflowError) as error:
        raise FormatError(f"damaged or cut short: {error}") from None
