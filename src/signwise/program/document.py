"""A program without its tensors as JSON text, in exactly one spelling: sorted keys, no spaces, ASCII.

``docs/file-format.md`` specifies the document. Reading trusts nothing: anything unexpected is a
:class:`~signwise.errors.FormatError` that names it.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from signwise.errors import FormatError
from signwise.program.checks import LARGEST_OPERATIONS
from signwise.program.operations import KINDS, Operation, Quantized, Shape, check_integer

VERSION = 1
# About twice what 4096 operations need, with 64 inputs or three tensors each.
LARGEST_JSON_LISTS = 2**17
LARGEST_JSON_VALUES = 2**19


class Document(NamedTuple):
    """What the text says; whether the operations fit together is checked later, with the tensors at hand."""

    input_shape: Shape
    ops: tuple[Operation, ...]
    output: int
    about: Mapping[str, str]


def write_document(document: Document) -> str:
    """The text of a program.

    Example:
        >>> write_document(Document((3,), (), 0, {}))
        '{"about":{},"input":{"shape":[3]},"ops":[],"output":0,"version":1}'
    """
    written = {
        "version": VERSION,
        "about": dict(document.about),
        "input": {"shape": list(document.input_shape)},
        "ops": [_write_operation(operation) for operation in document.ops],
        "output": document.output,
    }
    return json.dumps(written, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def read_document(text: str) -> Document:
    """The inverse of :func:`write_document`."""
    document = _parse(text)
    # The version first: a newer file may differ in everything else.
    version = document.get("version")
    check_integer("version", version, 1, 10**9)
    if version != VERSION:
        needed = f"a signwise that reads file version {version}, this one reads version {VERSION}"
        raise FormatError(f"the file needs {needed}: pip install --upgrade signwise")
    _check_keys("the program", document, {"version", "about", "input", "ops", "output"})
    _check_keys("input", document["input"], {"shape"})
    operations = document["ops"]
    if not isinstance(operations, list) or len(operations) > LARGEST_OPERATIONS:
        raise FormatError(f"ops must be a list of at most {LARGEST_OPERATIONS}, got {reprlib.repr(operations)}")
    if not isinstance(document["about"], dict):
        raise FormatError(f"about must hold text by keyword, got {reprlib.repr(document['about'])}")
    return Document(
        input_shape=_tuple(document["input"]["shape"]),
        ops=tuple(_read_operation(index, operation) for index, operation in enumerate(operations)),
        output=document["output"],
        about=document["about"],
    )


def check_about(about: Mapping[str, str]) -> dict[str, str]:
    """The free text by keyword, sorted; a :class:`FormatError` where it could disturb a terminal."""
    for keyword, text in about.items():
        if not all(isinstance(part, str) and part.replace("\n", "").isprintable() for part in (keyword, text)):
            found = f"{reprlib.repr(keyword)}: {reprlib.repr(text)}"
            raise FormatError(f"about must hold printable text by keyword, got {found}")
    return dict(sorted(about.items()))


def _write_operation(operation: Operation) -> dict[str, Any]:
    written: dict[str, Any] = {"op": operation.kind, "in": list(operation.inputs), "out": None}
    if operation.out is not None:
        written["out"] = {"type": operation.out.type, "scale": operation.out.scale}
    for name in operation.attributes():
        value = getattr(operation, name)
        written[name] = list(value) if isinstance(value, tuple) else value
    return written


def _read_operation(index: int, written: object) -> Operation:
    if not isinstance(written, dict) or not isinstance(written.get("op"), str):
        raise FormatError(f"operation {index} must have an op, got {reprlib.repr(written)}")
    if written["op"] not in KINDS:
        raise FormatError(f"operation {index}: op {reprlib.repr(written['op'])} is not one of {', '.join(KINDS)}")
    kind = KINDS[written["op"]]
    attributes = kind.attributes()
    where = f"operation {index} ({kind.kind})"
    _check_keys(where, written, {"op", "in", "out", *attributes})
    try:
        arguments = {name: _tuple(written[name]) for name in attributes}
        return kind(inputs=_tuple(written["in"]), out=_read_out(written["out"]), **arguments)
    except FormatError as error:
        raise FormatError(f"{where}: {error}") from None


def _read_out(written: object) -> Quantized | None:
    if written is None:
        return None
    _check_keys("out", written, {"type", "scale"})
    assert isinstance(written, dict)
    scale = written["scale"]
    # JSON does not distinguish 1 from 1.0.
    return Quantized(type=written["type"], scale=float(scale) if type(scale) is int and abs(scale) < 2**53 else scale)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_keys(where: str, found: object, expected: set[str]) -> None:
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


def _parse(text: str) -> dict[str, Any]:
    check_json_size(text)
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    # Deep nesting overflows the parser's stack, which Python reports as a RecursionError.
    except (ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"the program is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise FormatError(f"the program must be a JSON object, got {reprlib.repr(document)}")
    return document


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise FormatError("the program repeats a key of a JSON object")
    return unique


def _refuse_constant(constant: str) -> None:
    raise FormatError(f"the program holds {constant}, which is not a number")
