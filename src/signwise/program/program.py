"""A program: operations, their tensors, and the verbs on them.

Value 0 is the input; operation i makes value i + 1 and reads only earlier ones; one value is the output. The batch is
symbolic: shapes leave it out. A program that exists is valid: everything is checked when it is made, from a file or
from the compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise import shipped
from signwise.errors import FormatError, SignwiseError
from signwise.program import file, reference
from signwise.program.checks import check_tensors, infer_shapes
from signwise.program.operations import Operation, Quantized, Shape, Weighted, check_integer
from signwise.program.quantize import quantize
from signwise.runtime import native
from signwise.runtime.session import Session, thread_count

BATCH = 64


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Program:
    """What ``compile`` makes and a ``.sw`` file holds. Call it to run it.

    Args:
        input_shape: ``(channels, height, width)`` or ``(features,)``, batch aside.
        ops: the operations, in order.
        tensors: the weights by name; held as read-only, C-contiguous arrays.
        output: the number of the value that is the output, always returned in float32.
        about: free text by keyword, for people: what was trained, on which data, how well.

    Example:
        >>> from signwise.program.operations import Relu
        >>> program = Program(input_shape=(2,), ops=(Relu(inputs=(0,)),), tensors={}, output=1)
        >>> program
        Program((2,) -> (2,), 1 operation, 0 weights, 0 bytes)
        >>> program(np.array([[-1.0, 2.0]]))
        array([[0., 2.]], dtype=float32)
    """

    input_shape: Shape
    ops: tuple[Operation, ...]
    tensors: Mapping[str, npt.NDArray[Any]]
    output: int
    about: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        held = {name: _read_only(tensor) for name, tensor in sorted(self.tensors.items())}
        object.__setattr__(self, "tensors", MappingProxyType(held))
        object.__setattr__(self, "about", MappingProxyType(file.check_about(self.about)))
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
        """The bytes of all tensors: the size of the file without its header."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @property
    def float32_bytes(self) -> int:
        """The bytes of all tensors if every weight were a float32, its scale multiplied in."""
        binary = [operation for operation in self.ops if isinstance(operation, Weighted) and operation.bits == 1]
        packed = {name for operation in binary for name in (operation.weight, operation.scale) if name is not None}
        weights = sum(math.prod(operation.weight_shape(self.shapes[operation.inputs[0]])) for operation in binary)
        return self.nbytes - sum(self.tensors[name].nbytes for name in packed) + 4 * weights

    def rows(self) -> list[Row]:
        """One row per operation, for tables; their bytes add up to the bytes of all tensors."""
        seen: set[str] = set()
        found = []
        for value, operation in enumerate(self.ops, start=1):
            names = operation.tensor_names
            own = set(names.values()) - seen
            seen |= own
            bits, weights = None, 0
            if isinstance(operation, Weighted):
                bits, weights = operation.bits, math.prod(operation.weight_shape(self.shapes[operation.inputs[0]]))
            found.append(
                Row(
                    value=value,
                    op=operation.kind,
                    # The compiler names tensors MODULE.ATTRIBUTE or, where that repeats, MODULE.ATTRIBUTE.NUMBER.
                    layer=next((name.rpartition(f".{attribute}")[0] for attribute, name in names.items()), ""),
                    shape=self.shapes[value],
                    type="float32" if operation.out is None else operation.out.type,
                    bits=bits,
                    weights=weights,
                    bytes=sum(self.tensors[name].nbytes for name in own),
                )
            )
        return found

    def quantization(self, value: int) -> Quantized | None:
        """The 8-bit type of a value: ``None`` for float32, as the input always is."""
        return reference.out_of(self.ops, value)

    def __repr__(self) -> str:
        weights = sum(row.weights for row in self.rows())
        count = "1 operation" if len(self.ops) == 1 else f"{len(self.ops)} operations"
        return (
            f"Program({self.input_shape} -> {self.output_shape}, {count}, {weights:,} weights, {self.nbytes:,} bytes)"
        )

    # A program never changes, so a copy is the program itself; a pickle holds the bytes of its file.

    def __copy__(self) -> Program:
        return self

    def __deepcopy__(self, memo: object) -> Program:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Program.decode, (self.encode(),)

    # Running

    def __call__(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The outputs for a batch, with the fastest kernels of this machine and its default number of threads."""
        return self.run(examples)

    def run(self, examples: npt.NDArray[Any], threads: int | None = None) -> npt.NDArray[np.float32]:
        """The outputs for a batch.

        The session that this prepares serves all later calls with the same ``threads``.

        Args:
            examples: ``(batch, *input_shape)``, of any real type.
            threads: how many threads the call may use; ``None`` means ``SIGNWISE_THREADS``, or all cores.

        Returns:
            float32 of shape ``(batch, *output_shape)``.
        """
        count = thread_count(threads)
        if count not in self._sessions:
            self._sessions[count] = self.session(count)
        return self._sessions[count](examples)

    def session(self, threads: int | None = None) -> Session[Program]:
        """Prepare the program once, to run it many times; ``threads`` as for :meth:`run`."""
        return Session(self, threads)

    @cached_property
    def _sessions(self) -> dict[int, Session[Program]]:
        return {}

    def reference(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The outputs for a batch by numpy alone: slow, and what the kernels are tested against."""
        return reference.run(self.ops, self.tensors, self.output, self.as_input(examples))

    def as_input(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """A batch as the program reads it: float32, C-contiguous and aligned; any other shape is refused.

        Args:
            examples: ``(batch, *input_shape)``, of any real type.
        """
        found = np.asarray(examples)
        if found.shape[1:] != self.input_shape or found.ndim != len(self.input_shape) + 1:
            expected = ", ".join(["batch", *map(str, self.input_shape)])
            raise SignwiseError(f"the input must have shape ({expected}), got {found.shape}")
        if found.dtype.kind not in "fiub":
            raise SignwiseError(f"the input must hold real numbers, got {found.dtype}")
        return np.require(found, np.float32, ["C", "A"])

    def native_operations(self) -> Iterator[native.Operation]:
        """The operations as the C interface takes them; they point into the program's tensors."""
        for operation in self.ops:
            yield native.describe(
                operation.number,
                operation.inputs,
                out=None if operation.out is None else (operation.out.number, operation.out.scale),
                **operation.native_fields(self.tensors),
            )

    # Verbs

    def quantize(self, examples: npt.NDArray[Any], *, six_bit_inputs: bool = True) -> Program:
        """The same program with 8-bit activations: its binary layers add integers, which is faster still.

        Args:
            examples: typical inputs to choose scales on, ``(count, *input_shape)``; a hundred are plenty.
            six_bit_inputs: let the inputs of 3x3 convolutions use six bits of the eight, which CPUs with VNNI run
                much faster.
        """
        calibrated = quantize(
            self.ops, self.tensors, self.output, self.as_input(examples), six_bit_inputs=six_bit_inputs
        )
        about = {**self.about, "activations": f"int8, calibrated on {len(examples)} examples"}
        return replace(self, about=about, **calibrated._asdict())

    def error(
        self,
        images: npt.NDArray[Any],
        labels: npt.NDArray[Any],
        *,
        threads: int | None = None,
        batch_size: int = BATCH,
    ) -> float:
        """The share of images whose largest output is not at their label; see :func:`error_rate`."""
        return error_rate(lambda batch: self.run(batch, threads), images, labels, batch_size)

    def with_about(self, about: Mapping[str, str]) -> Program:
        """The same program with more text about it."""
        return replace(self, about={**self.about, **about})

    def float_weight(self, operation: Weighted) -> npt.NDArray[np.float32]:
        """The weights of one of its layers as float32 in PyTorch's layout, multiplied by the scale of their filter."""
        return operation.float_weight(self.tensors, self.shapes[operation.inputs[0]])

    # Files

    def to_json(self) -> str:
        """The program without its tensors, in the one spelling that it has."""
        return file.write_document(file.Document(self.input_shape, self.ops, self.output, self.about))

    @classmethod
    def from_json(cls, text: str, tensors: Mapping[str, npt.NDArray[Any]]) -> Program:
        """The inverse of :meth:`to_json`; anything unexpected is a :class:`FormatError` that names it."""
        return cls(tensors=tensors, **file.read_document(text)._asdict())

    def encode(self) -> bytes:
        """The bytes of the ``.sw`` file."""
        return file.encode(self.to_json(), self.tensors)

    @classmethod
    def decode(cls, data: bytes) -> Program:
        """The program in the bytes of a ``.sw`` file, or a :class:`FormatError`."""
        return cls.from_json(*file.decode(data))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the program to one ``.sw`` file, all of it or nothing."""
        file.write_file(path, self.encode())

    @classmethod
    def load(cls, source: str | PathLike[str]) -> Program:
        """Read a ``.sw`` file; any defect is a :class:`FormatError` that names the file.

        Args:
            source: a path, or the name of a shipped program such as ``lenet5-mnist-1bit``.
        """
        path = shipped.resolve(source)
        data = file.read_file(path)
        try:
            return cls.decode(data)
        except FormatError as error:
            raise FormatError(f"{fspath(path)!r}: {error}") from None


def load(source: str | PathLike[str], threads: int | None = None) -> Session[Program]:
    """Read a ``.sw`` file and prepare it to run; everything is checked before anything runs.

    Args:
        source: a path, or the name of a shipped program such as ``lenet5-mnist-1bit``.
        threads: how many threads a call may use; ``None`` means ``SIGNWISE_THREADS``, or all cores.

    Returns:
        A function from numpy arrays to numpy arrays: ``load("net.sw")(images)``.

    Example:
        >>> session = load("lenet5-mnist-1bit")
        >>> session(np.zeros((3, 1, 28, 28))).shape
        (3, 10)
    """
    return Program.load(source).session(threads)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation, as ``signwise inspect`` and ``signwise.summary`` list it.

    Args:
        value: the number of its result.
        op: its kind.
        layer: the module of the model that it came from, empty where it has no tensors.
        shape: of the result.
        type: of the result: float32 or an 8-bit type.
        bits: per weight, ``None`` without weights.
        weights: how many it has.
        bytes: of all tensors that it is the first to use.
    """

    value: int
    op: str
    layer: str
    shape: Shape
    type: str
    bits: int | None
    weights: int
    bytes: int


def error_rate(
    scores: Callable[[npt.NDArray[Any]], npt.NDArray[Any]],
    images: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    batch_size: int = BATCH,
) -> float:
    """The share of images whose largest score is not at their label.

    Args:
        scores: from a batch of images to ``(batch, classes)``: a program, a session, any function.
        images: ``(count, ...)``.
        labels: ``(count,)``, the index of the right class.
        batch_size: images per call.

    Example:
        >>> error_rate(lambda x: x, np.array([[0, 1], [1, 0], [3, 2], [0, 9]]), np.array([1, 0, 0, 0]))
        0.25
    """
    if len(images) != len(labels) or len(images) == 0:
        raise SignwiseError(f"as many labels as images are needed, got {len(labels)} and {len(images)}")
    expected, wrong = np.asarray(labels), 0
    for start in range(0, len(images), batch_size):
        batch = scores(images[start : start + batch_size])
        if batch.ndim != 2:
            raise SignwiseError(f"an error rate needs one vector of scores per image, got shape {batch.shape[1:]}")
        wrong += int(np.count_nonzero(batch.argmax(axis=1) != expected[start : start + batch_size]))
    return wrong / len(images)


def times_smaller(program: Program, size: int) -> str:
    """How much the packed weights save, as every command says it.

    Args:
        program: as compiled.
        size: bytes of its file.

    Example:
        >>> times_smaller(Program.load("lenet5-mnist-1bit"), 80_000)
        '21.6 times smaller than with float32 weights'
    """
    return f"{program.float32_bytes / size:.1f} times smaller than with float32 weights"


def error_text(rate: float, count: int) -> str:
    """An error rate as files and commands show it.

    Example:
        >>> error_text(0.006, 10_000)
        '0.60 % of 10,000 examples'
    """
    return f"{100 * rate:.2f} % of {count:,} examples"


def _read_only(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    held: npt.NDArray[Any] = np.require(tensor, requirements=["C", "A"])
    if held is tensor or held.base is not None:
        held = held.view()
    held.flags.writeable = False
    return held
