"""The ``.sw`` file: one program in a safetensors container. The format is specified in ``docs/file-format.md``.

Writing is deterministic: equal programs give equal bytes on every machine. Reading trusts nothing: whatever the bytes
are, the result is a valid program or a :class:`~signwise.errors.FormatError` that says what is wrong.
"""

from __future__ import annotations

import json
import reprlib
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from signwise.atomic import atomic_write
from signwise.errors import FormatError, SignwiseError
from signwise.program.program import Program

KEY = "signwise"
LARGEST_HEADER = 2**24

_TYPES = {np.dtype(np.float32): "F32", np.dtype(np.uint8): "U8"}


def save(program: Program, path: str | PathLike[str]) -> None:
    """Write a program to ``path``, whole or not at all."""
    data = encode(program)
    try:
        with atomic_write(path) as file:
            file.write(data)
    except OSError as error:
        raise SignwiseError(f"cannot write {fspath(path)!r}: {error.strerror}") from None


def load(path: str | PathLike[str]) -> Program:
    """Read a program; any defect of the file is a :class:`~signwise.errors.FormatError` that names the file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SignwiseError(f"cannot read {fspath(path)!r}: {error.strerror}") from None
    try:
        return decode(data)
    except FormatError as error:
        raise FormatError(f"{fspath(path)!r}: {error}") from None


def encode(program: Program) -> bytes:
    """The bytes of the file.

    Example:
        >>> from signwise.program.operations import Relu
        >>> program = Program(input_shape=(3,), ops=(Relu(inputs=(0,)),), tensors={}, output=1)
        >>> decode(encode(program)).to_json() == program.to_json()
        True
    """
    header: dict[str, Any] = {"__metadata__": {KEY: program.to_json()}}
    # float32 first, so that every number is aligned when the file is mapped into memory.
    names = sorted(program.tensors, key=lambda name: (program.tensors[name].dtype != np.float32, name))
    parts, end = [], 0
    for name in names:
        tensor = program.tensors[name]
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        parts.append(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes())
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def decode(data: bytes) -> Program:
    """The program in the bytes of a file, or a :class:`~signwise.errors.FormatError`."""
    header = _read_header(data)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not isinstance(metadata.get(KEY), str):
        raise FormatError(f"a safetensors file without a program: its metadata has no text under {KEY!r}")
    if len(metadata) != 1:
        raise FormatError(f"the metadata must have the key {KEY!r} alone, got {reprlib.repr(sorted(metadata))}")
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.get("dtype") not in ("F32", "U8"):
            raise FormatError(f"tensor {reprlib.repr(name)} must have dtype F32 or U8, got {reprlib.repr(entry)}")
    return Program.from_json(metadata[KEY], _read_tensors(data))


def _read_header(data: bytes) -> dict[str, Any]:
    if data[:4] == b"PK\x03\x04":
        raise FormatError(
            "a zip archive, perhaps a PyTorch checkpoint, and no .sw file: make one with signwise compile"
        )
    if len(data) < 8:
        raise FormatError(f"too short for a .sw file: {len(data)} bytes")
    length = int.from_bytes(data[:8], "little")
    if length > LARGEST_HEADER:
        raise FormatError(f"not a .sw file: a header of {length} bytes, the limit is {LARGEST_HEADER}")
    if length > len(data) - 8:
        raise FormatError(f"cut short: the header needs {length} bytes, the file has {len(data) - 8} after its first 8")
    try:
        header = json.loads(data[8 : 8 + length].decode("utf-8"), object_pairs_hook=_unique)
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
