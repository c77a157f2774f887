"""A program: the operations of a network, their tensors, and nothing else.

Value 0 is the input; operation i makes value i + 1 and reads only earlier ones; one value is the output. The batch is
symbolic: shapes leave it out. A program that exists is valid: everything is checked when it is made, from a file or
from the compiler.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.errors import FormatError, SignwiseError
from signwise.program.checks import LARGEST_OPERATIONS, Shape, check_tensors, infer_shapes
from signwise.program.operations import KINDS, Operation, Quantized, check_integer

VERSION = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A network that is ready to run.

    Args:
        input_shape: ``(channels, height, width)`` or ``(features,)``, batch aside.
        ops: the operations, in order.
        tensors: the weights by name; kept as read-only, C-contiguous arrays.
        output: the value that is the answer, in float32 whatever its operation says.
        about: free text by keyword, for people: what was trained, on which data, how well.

    Example:
        >>> from signwise.program.operations import Relu
        >>> Program(input_shape=(3,), ops=(Relu(inputs=(0,)),), tensors={}, output=1).output_shape
        (3,)
    """

    input_shape: Shape
    ops: tuple[Operation, ...]
    tensors: Mapping[str, npt.NDArray[Any]]
    output: int
    about: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {name: _read_only(tensor) for name, tensor in sorted(self.tensors.items())}
        object.__setattr__(self, "tensors", MappingProxyType(kept))
        object.__setattr__(self, "about", MappingProxyType(_checked_about(self.about)))
        check_tensors(self.ops, self.shapes, self.tensors)
        check_integer("output", self.output, 0, len(self.ops))

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of every value, the input's first."""
        return infer_shapes(self.input_shape, self.ops)

    @property
    def output_shape(self) -> Shape:
        return self.shapes[self.output]

    @property
    def nbytes(self) -> int:
        """The bytes of all tensors: those of the file, its header aside."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def quantization(self, value: int) -> Quantized | None:
        """How a value is kept: ``None`` for float32, as the input always is."""
        return self.ops[value - 1].out if value > 0 else None

    def as_input(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """A batch as the program reads it, float32 and C-contiguous; any other shape is refused.

        Args:
            examples: ``(batch, *input_shape)``, of any real type.
        """
        found = np.asarray(examples)
        if found.shape[1:] != self.input_shape or found.ndim != len(self.input_shape) + 1:
            expected = ", ".join(["batch", *map(str, self.input_shape)])
            raise SignwiseError(f"the input must have shape ({expected}), got {found.shape}")
        if found.dtype.kind not in "fiub":
            raise SignwiseError(f"the input must hold real numbers, got {found.dtype}")
        return np.ascontiguousarray(found, dtype=np.float32)

    def to_json(self) -> str:
        """The program without its tensors, in the one spelling that it has: sorted keys, no spaces, ASCII."""
        document = {
            "version": VERSION,
            "about": dict(self.about),
            "input": {"shape": list(self.input_shape)},
            "ops": [_write(operation) for operation in self.ops],
            "output": self.output,
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, tensors: Mapping[str, npt.NDArray[Any]]) -> Program:
        """The inverse of :meth:`to_json`; anything unexpected is a :class:`FormatError` that names it."""
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
        return cls(
            input_shape=_tuple(document["input"]["shape"]),
            ops=tuple(_read(index, operation) for index, operation in enumerate(operations)),
            tensors=tensors,
            output=document["output"],
            about=document["about"],
        )

    def __call__(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The answers to a batch, by the fastest kernels that this machine has."""
        return self._model(examples)

    @cached_property
    def _model(self) -> Callable[[npt.NDArray[Any]], npt.NDArray[np.float32]]:
        from signwise.runtime.session import Session

        return Session(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the program to one ``.sw`` file, whole or not at all."""
        from signwise.program.file import save

        save(self, path)


def _read_only(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    kept = np.ascontiguousarray(tensor)
    if kept is tensor or kept.base is not None:
        kept = kept.view()
    kept.flags.writeable = False
    return kept


def _checked_about(about: Mapping[str, str]) -> dict[str, str]:
    for keyword, text in about.items():
        # Printed on terminals: printable characters and line breaks alone.
        if not all(isinstance(part, str) and part.replace("\n", "").isprintable() for part in (keyword, text)):
            found = f"{reprlib.repr(keyword)}: {reprlib.repr(text)}"
            raise FormatError(f"about must hold printable text by keyword, got {found}")
    return dict(sorted(about.items()))


def _write(operation: Operation) -> dict[str, Any]:
    written: dict[str, Any] = {"op": operation.kind, "in": list(operation.inputs), "out": None}
    if operation.out is not None:
        written["out"] = {"type": operation.out.type, "scale": operation.out.scale}
    for name in _attributes(type(operation)):
        value = getattr(operation, name)
        written[name] = list(value) if isinstance(value, tuple) else value
    return written


def _read(index: int, written: object) -> Operation:
    if not isinstance(written, dict) or not isinstance(written.get("op"), str):
        raise FormatError(f"operation {index} must have an op, got {reprlib.repr(written)}")
    if written["op"] not in KINDS:
        raise FormatError(f"operation {index}: op {reprlib.repr(written['op'])} is not one of {', '.join(KINDS)}")
    kind = KINDS[written["op"]]
    attributes = _attributes(kind)
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
    # JSON does not tell 1 from 1.0.
    return Quantized(type=written["type"], scale=float(scale) if type(scale) is int and scale < 2**53 else scale)


def _attributes(kind: type[Operation]) -> list[str]:
    return [attribute.name for attribute in fields(kind) if attribute.name not in ("inputs", "out")]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_keys(where: str, found: object, expected: set[str]) -> None:
    if not isinstance(found, dict):
        raise FormatError(f"{where} must be a JSON object, got {reprlib.repr(found)}")
    if missing := sorted(expected - set(found)):
        raise FormatError(f"{where} lacks {missing[0]!r}")
    if unknown := sorted(set(found) - expected):
        raise FormatError(f"{where} has an unknown {reprlib.repr(unknown[0])}")


def _parse(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    # Too deep a nesting overflows the parser's stack, which Python turns into a RecursionError.
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
