"""A program in integers alone: steps, what their bytes mean, and the verbs on them.

The input is value 0; each step makes one more and reads only earlier ones; the last step makes the outputs. An integer
program that exists is valid: everything is checked when it is made, from a file or from the planner.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from signwise.errors import FormatError, SignwiseError
from signwise.program import file
from signwise.program.arrays import as_inputs
from signwise.program.checks import LARGEST_OPERATIONS, Expense, Input
from signwise.program.integers.steps import KINDS, LARGEST_SIDE, Layer, Step, high_of, zero_of
from signwise.program.integers.windows import Image
from signwise.program.measures import BATCH, Row, error_rate
from signwise.program.operations import Quantized, Shape, check_integer
from signwise.program.operations.base import check_scale
from signwise.runtime.session import Session
from signwise.text import counted


@dataclass(frozen=True, kw_only=True, eq=False, repr=False, init=False)
class IntegerProgram:
    """What ``program.to_integers(examples)`` makes and ``signwise.export.c`` writes as C. Call it to run it in numpy.

    Args:
        input_shape: ``(channels, height, width)`` or ``(features,)``, batch aside.
        input_type: how numbers of the input become bytes; ``"uint8"`` or ``"int8"``.
        steps: in order; the last one is a layer that makes the outputs.
        output_scale: what 1 means in the outputs.
        about: free text by keyword, for people.

    Example:
        >>> layer = Layer(
        ...     inputs=(0,), out=None, weight=np.array([[5]], np.uint8), multipliers=np.array([2], np.int16),
        ...     offsets=np.array([1], np.int32), shift=0, flatten=True, relu=False,
        ... )
        >>> pixels = Quantized(type="uint8", scale=1.0)
        >>> program = IntegerProgram(input_shape=(3,), input_type=pixels, steps=[layer], output_scale=0.5)
        >>> program
        IntegerProgram((3,) -> (1,), 1 step, 3 weights, 7 bytes)
        >>> program(np.array([[10, 20, 30]]))
        array([[41]], dtype=int32)
    """

    version: ClassVar[int] = file.INTEGER_VERSIONS[-1]

    input_shape: Shape
    input_type: Quantized
    steps: tuple[Step, ...]
    output_scale: float
    about: Mapping[str, str]

    def __init__(
        self,
        *,
        input_shape: Shape,
        input_type: Quantized,
        steps: Sequence[Step],
        output_scale: float,
        about: Mapping[str, str] | None = None,
    ) -> None:
        fields: dict[str, Any] = {
            "input_shape": input_shape,
            "input_type": input_type,
            "steps": tuple(steps),
            "output_scale": output_scale,
            "about": MappingProxyType(file.check_about(about or {})),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        check_scale("output_scale", output_scale)
        if not isinstance(input_shape, tuple) or len(input_shape) not in (1, 3):
            found = reprlib.repr(input_shape)
            raise FormatError(f"input shape must be [features] or [channels, height, width], got {found}")
        for size in input_shape:
            check_integer("input shape", size, 1, LARGEST_SIDE)
        if input_type.type not in ("uint8", "int8"):  # a caller of the C code may give any byte
            raise FormatError(f"input type must be uint8 or int8, got {input_type.type}")
        if not 1 <= len(self.steps) <= LARGEST_OPERATIONS:
            raise FormatError(f"an integer program has 1 to {LARGEST_OPERATIONS} steps, got {len(self.steps)}")
        _ = self.image_shapes  # checks every step

    @cached_property
    def image_shapes(self) -> tuple[Image, ...]:
        """The shape of every value as the steps see it, ``(channels, height, width)``, the input's first."""
        first = self.input_shape
        images: list[Image] = [(first[0], first[1], first[2]) if len(first) == 3 else (first[0], 1, 1)]
        expense = Expense()
        expense.add(math.prod(images[0]))
        for number, step in enumerate(self.steps, start=1):
            try:
                read = self._read_by(step, images)
                is_last = number == len(self.steps)
                if is_last != (step.out is None) or (is_last and not isinstance(step, Layer)):
                    raise FormatError("the last step, a layer, makes the outputs, which have no type; all others have")
                made = step.output_shape(read)
                step.check_numbers(read, [self._type(value) for value in step.inputs])
                for size in made:
                    check_integer("a size of the result", size, 1, LARGEST_SIDE)
                expense.add(math.prod(made) + step.padded_size(read), step.work(read, made))
            except FormatError as error:
                raise FormatError(f"step {number} ({step.kind}): {error}") from None
            images.append(made)
        return tuple(images)

    @staticmethod
    def _read_by(step: Step, images: Sequence[Image]) -> list[Image]:
        for value in step.inputs:
            if type(value) is not int or not 0 <= value < len(images):
                raise FormatError(f"reads value {reprlib.repr(value)}, which is not made before it")
        return [images[value] for value in step.inputs]

    def _type(self, value: int) -> Quantized:
        """The type of a value that a step reads."""
        kind = self.input_type if value == 0 else self.steps[value - 1].out
        assert kind is not None, "the outputs come last"
        return kind

    # What a session and the commands ask of any program

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(shape=self.input_shape),)

    @property
    def outputs(self) -> tuple[int, ...]:
        return (len(self.steps),)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of every value; the outputs are one vector, in the order height, width, channels."""
        return (self.input_shape, *self.image_shapes[1:-1], (math.prod(self.image_shapes[-1]),))

    @property
    def types(self) -> tuple[str, ...]:
        """The type of every value: the caller's numbers, bytes, and the outputs."""
        return ("float32", *("int32" if step.out is None else step.out.type for step in self.steps))

    @property
    def nbytes(self) -> int:
        """The bytes of all tensors: the size of the file without its header."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @property
    def float32_bytes(self) -> int:
        """The bytes of all tensors if every weight were a float32."""
        rows = self.rows()
        layers = [step for step in self.steps if isinstance(step, Layer)]
        return self.nbytes - sum(layer.weight.nbytes for layer in layers) + 4 * sum(row.weights for row in rows)

    def rows(self) -> list[Row]:
        """One row per step, for tables; their bytes add up to the bytes of all tensors."""
        found = []
        for number, step in enumerate(self.steps, start=1):
            op, bits, weights = step.kind, None, 0
            if isinstance(step, Layer):
                op, bits = "dense" if step.flatten else "conv", step.bits
                weights = math.prod(step.weight_shape(self.image_shapes[step.inputs[0]]))
            found.append(
                Row(
                    value=number,
                    op=op,
                    layer=f"step{number}",
                    shape=self.shapes[number],
                    type=self.types[number],
                    bits=bits,
                    weights=weights,
                    bytes=sum(getattr(step, name).nbytes for name in step.arrays),
                )
            )
        return found

    def __repr__(self) -> str:
        weights = sum(row.weights for row in self.rows())
        count, size = counted(len(self.steps), "step"), f"{self.nbytes:,} bytes"
        return f"IntegerProgram({self.input_shape} -> {self.shapes[-1]}, {count}, {weights:,} weights, {size})"

    # An integer program never changes, so a copy is the program itself; a pickle holds the bytes of its file.

    def __copy__(self) -> IntegerProgram:
        return self

    def __deepcopy__(self, memo: object) -> IntegerProgram:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return IntegerProgram.decode, (self.encode(),)

    # Running

    def __call__(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """The outputs for a batch; see :meth:`run`."""
        return self.run(examples)

    def run(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """The outputs as 32-bit integers, ``(batch, outputs)``; times ``output_scale`` they are real numbers.

        Computed in numpy, without the native library: this is the reference of the C code, not a fast engine.

        Args:
            examples: ``(batch, *input_shape)``, of any real type, such as raw pixels.
        """
        images = self.as_bytes(examples)
        made = np.empty((len(images), math.prod(self.image_shapes[-1])), np.int32)
        for start in range(0, len(images), BATCH):
            part = slice(start, start + BATCH)
            made[part] = self._run(images[part])
        return made

    def _run(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.integer[Any]]:
        last_reader = {value: number for number, step in enumerate(self.steps) for value in step.inputs}
        alive: dict[int, npt.NDArray[Any]] = {0: images}
        for number, step in enumerate(self.steps):
            made = step.run([alive[value] for value in step.inputs], [self._type(value) for value in step.inputs])
            if step.out is None:
                return made.reshape(len(images), -1)
            alive[number + 1] = np.clip(made, 0, high_of(step.out)).astype(np.uint8)
            for value in set(step.inputs):
                if last_reader[value] == number:
                    del alive[value]
        raise AssertionError("the last step makes the outputs")

    def as_bytes(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Examples as bytes in the order of the C code: ``(batch, height, width, channels)``."""
        read = self.as_inputs((examples,))[0].astype(np.float64)
        if not np.isfinite(read).all():
            raise SignwiseError("the input must hold finite numbers: no byte stands for infinity or NaN")
        zero, high = zero_of(self.input_type), high_of(self.input_type)
        rounded = np.clip(np.floor(read / self.input_type.scale + zero + 0.5), 0, high)
        images = rounded.reshape(-1, *self.image_shapes[0]).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(images, np.uint8)

    def as_inputs(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """A batch as float32 numbers, C-contiguous and aligned; other shapes are refused."""
        return as_inputs(self.inputs, inputs)

    def reference(self, *inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What a session calls: :meth:`run` of the only input."""
        return self.run(*inputs)

    def native_operations(self) -> None:
        """``None``: the native library has no kernels for integer programs, so that a session calls numpy."""

    def session(self, threads: int | None = None) -> Session[IntegerProgram]:
        """The program as a session, for code that takes one; it runs in numpy, whatever ``threads`` is."""
        return Session(self, threads)

    def error(self, images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
        """The share of images whose largest output is not at their label; see ``signwise eval``."""
        return error_rate(self.run, images, labels)

    def with_about(self, about: Mapping[str, str]) -> IntegerProgram:
        """The same program with more text about it."""
        return dataclasses.replace(self, about={**self.about, **about})

    # Files

    @cached_property
    def tensors(self) -> Mapping[str, npt.NDArray[Any]]:
        """The tensors of the file by name, such as ``step1.weight``."""
        numbered = enumerate(self.steps, start=1)
        found = {f"step{number}.{name}": getattr(step, name) for number, step in numbered for name in step.arrays}
        return MappingProxyType(found)

    def to_json(self) -> str:
        """The program without its tensors, in the one spelling that it has."""
        return file.json_text(
            {
                "version": self.version,
                "kind": "integers",
                "about": dict(self.about),
                "input": {"shape": list(self.input_shape), **file.write_quantized(self.input_type)},
                "steps": [_write_step(step) for step in self.steps],
                "output_scale": self.output_scale,
            }
        )

    @classmethod
    def from_json(cls, text: str, tensors: Mapping[str, npt.NDArray[Any]]) -> IntegerProgram:
        """The inverse of :meth:`to_json`; anything unexpected is a :class:`FormatError` that names it."""
        document, version = file.parse_document(text)
        if version not in file.INTEGER_VERSIONS:
            raise FormatError(
                "the file holds a program with float32 values: Program.load(path).to_integers(examples) makes one in "
                "integers alone of it"
            )
        file.check_keys("the program", document, {"version", "kind", "about", "input", "steps", "output_scale"})
        if document["kind"] != "integers":
            raise FormatError(f"kind must be 'integers', got {reprlib.repr(document['kind'])}")
        file.check_about(document["about"])
        given, steps = document["input"], document["steps"]
        file.check_keys("input", given, {"shape", "type", "scale"})
        if not isinstance(steps, list) or len(steps) > LARGEST_OPERATIONS:
            raise FormatError(f"steps must be a list of at most {LARGEST_OPERATIONS}, got {reprlib.repr(steps)}")
        try:
            kind = Quantized(type=given["type"], scale=file.as_numbers(given["scale"]))
        except FormatError as error:
            raise FormatError(f"input: {error}") from None
        spare = dict(tensors)
        program = cls(
            input_shape=file.as_tuple(given["shape"]),
            input_type=kind,
            steps=[_read_step(number, written, spare) for number, written in enumerate(steps, start=1)],
            output_scale=file.as_numbers(document["output_scale"]),
            about=document["about"],
        )
        if spare:
            raise FormatError(f"no step uses tensor {min(spare)!r}")
        return program

    def encode(self) -> bytes:
        """The bytes of the ``.sw`` file."""
        return file.encode(self.to_json(), self.tensors)

    @classmethod
    def decode(cls, data: bytes) -> IntegerProgram:
        """The integer program in the bytes of a ``.sw`` file, or a :class:`FormatError`."""
        return cls.from_json(*file.decode(data))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the program to one ``.sw`` file, all of it or nothing."""
        file.write_file(path, self.encode())

    @classmethod
    def load(cls, source: str | PathLike[str]) -> IntegerProgram:
        """Read a ``.sw`` file; any defect is a :class:`FormatError` that names the file.

        Args:
            source: a path, or the name of a shipped program.
        """
        return file.load(source, cls.decode)


def _attributes(kind: type[Step]) -> list[str]:
    """The attributes of a step that its JSON object has, ``in`` and ``out`` aside."""
    return [field.name for field in dataclasses.fields(kind) if field.name not in ("inputs", "out", *kind.arrays)]


def _write_step(step: Step) -> dict[str, Any]:
    written: dict[str, Any] = {"step": step.kind, "in": list(step.inputs), "out": None}
    if step.out is not None:
        written["out"] = file.write_quantized(step.out)
    for name in _attributes(type(step)):
        value = getattr(step, name)
        written[name] = list(value) if isinstance(value, tuple) else value
    return written


def _read_step(number: int, written: object, tensors: dict[str, npt.NDArray[Any]]) -> Step:
    """One step; its tensors leave ``tensors``."""
    if not isinstance(written, dict) or not isinstance(written.get("step"), str):
        raise FormatError(f"step {number} must have a step, got {reprlib.repr(written)}")
    if written["step"] not in KINDS:
        raise FormatError(f"step {number}: {reprlib.repr(written['step'])} is not one of {', '.join(KINDS)}")
    kind = KINDS[written["step"]]
    where = f"step {number} ({kind.kind})"
    file.check_keys(where, written, {"step", "in", "out", *_attributes(kind)})
    arrays = {}
    for name in kind.arrays:
        if f"step{number}.{name}" not in tensors:
            raise FormatError(f"{where}: tensor 'step{number}.{name}' is missing from the file")
        arrays[name] = tensors.pop(f"step{number}.{name}")
    try:
        attributes = {name: file.as_tuple(written[name]) for name in _attributes(kind)}
        out = file.read_quantized(written["out"])
        return kind(inputs=file.as_tuple(written["in"]), out=out, **arrays, **attributes)
    except FormatError as error:
        raise FormatError(f"{where}: {error}") from None
