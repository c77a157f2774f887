"""The ``.sw`` file: a program as JSON text and its tensors, in a safetensors container.

``docs/file-format.md`` specifies both. Writing is deterministic: equal programs give equal bytes on every machine, and
the text has exactly one spelling: sorted keys, no spaces, ASCII. Reading trusts nothing: whatever the bytes are, the
result is a document with well-formed tensors or a :class:`~signwise.errors.FormatError` that says what is wrong.
"""

from __future__ import annotations

import json
import os
import reprlib
import stat
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from signwise import shipped
from signwise.atomic import atomic_write
from signwise.errors import FormatError, SignwiseError
from signwise.program.checks import LARGEST_ENDS, LARGEST_OPERATIONS, Input
from signwise.program.operations import KINDS, Operation, Quantized, Tensors, check_integer

VERSIONS = (1, 2)
INTEGER_VERSIONS = (3,)  # of programs in integers alone
KEY = "signwise"
LARGEST_HEADER = 2**24
# About twice what 4096 operations need, with 64 inputs or three tensors each.
LARGEST_JSON_LISTS = 2**17
LARGEST_JSON_VALUES = 2**19

_TYPES = {
    np.dtype(np.float32): "F32",
    np.dtype(np.int32): "I32",
    np.dtype(np.int16): "I16",
    np.dtype(np.int8): "I8",
    np.dtype(np.uint8): "U8",
}

T = TypeVar("T")


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


def load(source: str | PathLike[str], decode: Callable[[bytes], T]) -> T:
    """What ``decode`` makes of a file; any defect is a :class:`FormatError` that names the file.

    Args:
        source: a path, or the name of a shipped program.
        decode: from the bytes of the file.
    """
    path = shipped.resolve(source)
    data = read_file(path)
    try:
        return decode(data)
    except FormatError as error:
        raise FormatError(f"{fspath(path)!r}: {error}") from None


def encode(text: str, tensors: Tensors) -> bytes:
    """The bytes of the file.

    Args:
        text: of the program, from :func:`write_document` or of an integer program.
        tensors: float32 and uint8, or integers of 8 to 32 bits, by name.

    Example:
        >>> decode(encode("{}", {"w": np.zeros(2, np.uint8)}))
        ('{}', {'w': array([0, 0], dtype=uint8)})
    """
    header: dict[str, Any] = {"__metadata__": {KEY: text}}
    # The widest numbers first, so that every number is aligned when the file is mapped into memory.
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    parts, end = [], 0
    for name in names:
        tensor = tensors[name]
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        parts.append(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes())
    head = json_text(header).encode("ascii")
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
    types = list(_TYPES.values())
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.get("dtype") not in types:
            known = f"{', '.join(types[:-1])} or {types[-1]}"
            raise FormatError(f"tensor {reprlib.repr(name)} must have dtype {known}, got {reprlib.repr(entry)}")
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
        header = json.loads(text, object_pairs_hook=_unique_names)
    except FormatError as error:
        raise FormatError(f"not a .sw file: {error}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not a .sw file: the header is not valid JSON ({error})") from None
    if not isinstance(header, dict):
        raise FormatError(f"not a .sw file: the header must be a JSON object, got {reprlib.repr(header)}")
    return header


def _unique_names(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
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


# The document: a program without its tensors


class Document(NamedTuple):
    """What the text says; whether the operations fit together is checked later, with the tensors at hand."""

    inputs: tuple[Input, ...]
    ops: tuple[Operation, ...]
    outputs: tuple[int, ...]
    about: Mapping[str, str]


def write_document(document: Document, version: int) -> str:
    """The text of a program.

    Args:
        document: the program.
        version: of the file, the oldest that can hold it.

    Example:
        >>> write_document(Document((Input(shape=(3,)),), (), (0,), {}), 1)
        '{"about":{},"input":{"shape":[3]},"ops":[],"output":0,"version":1}'
    """
    written: dict[str, Any] = {
        "version": version,
        "about": dict(document.about),
        "ops": [_write_operation(operation, version) for operation in document.ops],
    }
    shapes = [list(given.shape) for given in document.inputs]
    if version == 1:
        written |= {"input": {"shape": shapes[0]}, "output": document.outputs[0]}
    else:
        types = [given.type for given in document.inputs]
        listed = [{"shape": shape, "type": kind} for shape, kind in zip(shapes, types, strict=True)]
        written |= {"inputs": listed, "outputs": list(document.outputs)}
    return json_text(written)


def json_text(document: Mapping[str, Any]) -> str:
    """The one spelling of a JSON object: sorted keys, no spaces, ASCII."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def read_document(text: str) -> tuple[Document, int]:
    """The inverse of :func:`write_document`: the program, and the version of its file."""
    document, version = parse_document(text)
    if version not in VERSIONS:
        raise FormatError(
            "the file holds a program in integers alone: signwise.load, eval, inspect and export --to c take it; "
            "everything else takes the program that it was made from"
        )
    ends = {"input", "output"} if version == 1 else {"inputs", "outputs"}
    check_keys("the program", document, {"version", "about", "ops", *ends})
    operations = document["ops"]
    if not isinstance(operations, list) or len(operations) > LARGEST_OPERATIONS:
        raise FormatError(f"ops must be a list of at most {LARGEST_OPERATIONS}, got {reprlib.repr(operations)}")
    check_about(document["about"])
    inputs, outputs = _read_ends(document, version)
    read = tuple(_read_operation(index, operation, version) for index, operation in enumerate(operations))
    return Document(inputs, read, outputs, document["about"]), version


def _read_ends(document: Mapping[str, Any], version: int) -> tuple[tuple[Input, ...], tuple[int, ...]]:
    if version == 1:
        check_keys("input", document["input"], {"shape"})
        shape = as_tuple(document["input"]["shape"])
        if not isinstance(shape, tuple) or len(shape) not in (1, 3):
            raise FormatError(f"input shape must be [features] or [channels, height, width], got {reprlib.repr(shape)}")
        return (Input(shape=shape),), (document["output"],)
    for what in ("inputs", "outputs"):
        if not isinstance(document[what], list) or not 1 <= len(document[what]) <= LARGEST_ENDS:
            raise FormatError(f"{what} must be a list of 1 to {LARGEST_ENDS}, got {reprlib.repr(document[what])}")
    inputs = []
    for given in document["inputs"]:
        check_keys("an input", given, {"shape", "type"})
        inputs.append(Input(shape=as_tuple(given["shape"]), type=given["type"]))
    return tuple(inputs), tuple(document["outputs"])


def check_about(about: Mapping[str, str]) -> dict[str, str]:
    """The free text by keyword, sorted; a :class:`FormatError` where it could disturb a terminal."""
    if not isinstance(about, Mapping):
        raise FormatError(f"about must hold text by keyword, got {reprlib.repr(about)}")
    for keyword, text in about.items():
        if not all(isinstance(part, str) and part.replace("\n", "").isprintable() for part in (keyword, text)):
            found = f"{reprlib.repr(keyword)}: {reprlib.repr(text)}"
            raise FormatError(f"about must hold printable text by keyword, got {found}")
    return dict(sorted(about.items()))


def _write_operation(operation: Operation, version: int) -> dict[str, Any]:
    written: dict[str, Any] = {"op": operation.kind, "in": list(operation.inputs), "out": None}
    if operation.out is not None:
        written["out"] = write_quantized(operation.out)
    for name in operation.attributes(version):
        value = getattr(operation, name)
        written[name] = list(value) if isinstance(value, tuple) else value
    return written


def _read_operation(index: int, written: object, version: int) -> Operation:
    if not isinstance(written, dict) or not isinstance(written.get("op"), str):
        raise FormatError(f"operation {index} must have an op, got {reprlib.repr(written)}")
    kinds = {name: kind for name, kind in KINDS.items() if kind.since <= version}
    if written["op"] not in kinds:
        raise FormatError(f"operation {index}: op {reprlib.repr(written['op'])} is not one of {', '.join(kinds)}")
    kind = kinds[written["op"]]
    attributes = kind.attributes(version)
    where = f"operation {index} ({kind.kind})"
    check_keys(where, written, {"op", "in", "out", *attributes})
    try:
        arguments = {name: as_tuple(written[name]) for name in attributes}
        for name in kind.number_attributes:
            arguments[name] = as_numbers(arguments[name])
        return kind(inputs=as_tuple(written["in"]), out=read_quantized(written["out"]), **arguments)
    except FormatError as error:
        raise FormatError(f"{where}: {error}") from None


def as_numbers(value: Any) -> Any:
    """JSON does not distinguish 1 from 1.0."""
    if isinstance(value, tuple):
        return tuple(map(as_numbers, value))
    return float(value) if type(value) is int and abs(value) < 2**53 else value


def write_quantized(quantized: Quantized) -> dict[str, Any]:
    return {"type": quantized.type, "scale": quantized.scale}


def read_quantized(written: object) -> Quantized | None:
    if written is None:
        return None
    check_keys("out", written, {"type", "scale"})
    assert isinstance(written, dict)
    return Quantized(type=written["type"], scale=as_numbers(written["scale"]))


def as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def check_keys(where: str, found: object, expected: set[str]) -> None:
    if not isinstance(found, dict):
        raise FormatError(f"{where} must be a JSON object, got {reprlib.repr(found)}")
    if missing := sorted(expected - set(found)):
        raise FormatError(f"{where} lacks {missing[0]!r}")
    if unknown := sorted(set(found) - expected):
        raise FormatError(f"{where} has an unknown {reprlib.repr(unknown[0])}")


def check_json_size(text: str) -> None:
    """Refuse a JSON text with more parts than any program has, before a parser makes an object of each.

    Counting characters takes milliseconds; parsing 16 MB of empty lists takes seconds and hundreds of megabytes.
    """
    lists, values = text.count("[") + text.count("{"), text.count(",")
    if lists > LARGEST_JSON_LISTS or values > LARGEST_JSON_VALUES:
        limits = f"{LARGEST_JSON_LISTS} lists or {LARGEST_JSON_VALUES} values"
        raise FormatError(f"the JSON text has more than {limits}, which no program needs")


def version_of(text: str) -> int:
    """The version of the file whose program is this text."""
    return parse_document(text)[1]


def parse_document(text: str) -> tuple[dict[str, Any], int]:
    """The JSON object of a program of either kind, and its version, which this reader knows."""
    document = _parse(text)
    # The version first: a newer file may differ in everything else.
    version = document.get("version")
    check_integer("version", version, 1, 10**9)
    known = (*VERSIONS, *INTEGER_VERSIONS)
    if version not in known:
        needed = f"a signwise that reads file version {version}, this one reads versions up to {known[-1]}"
        raise FormatError(f"the file needs {needed}: install a newer signwise")
    return document, version


def _parse(text: str) -> dict[str, Any]:
    check_json_size(text)
    try:
        document = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    # Deep nesting overflows the parser's stack, which Python reports as a RecursionError.
    except (ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"the program is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise FormatError(f"the program must be a JSON object, got {reprlib.repr(document)}")
    return document


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise FormatError("the program repeats a key of a JSON object")
    return unique


def _refuse_constant(constant: str) -> None:
    raise FormatError(f"the program holds {constant}, which is not a number")
