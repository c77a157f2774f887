"""A program: operations, their tensors, and the verbs on them.

The inputs are the first values; each operation makes one more and reads only earlier ones; one value or several are the
outputs. The batch is symbolic: shapes leave it out. A program that exists is valid: everything is checked when it is
made, from a file or from the compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, Union

import numpy as np
import numpy.typing as npt

from signwise import shipped
from signwise.errors import FormatError, SignwiseError
from signwise.program import file, reference
from signwise.program.checks import Input, check_ends, check_tensors, infer_shapes, infer_types
from signwise.program.operations import Operation, Quantized, Shape, ValueType, Weighted
from signwise.program.quantize import quantize
from signwise.runtime import native
from signwise.runtime.session import Session, one_or_tuple, thread_count

BATCH = 64

T = TypeVar("T")
Examples: TypeAlias = Union[npt.NDArray[Any], tuple[npt.NDArray[Any], ...]]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False, init=False)
class Program:
    """What ``compile`` makes and a ``.sw`` file holds. Call it to run it.

    Args:
        ops: the operations, in order.
        tensors: the weights by name; held as read-only, C-contiguous arrays.
        input_shape: ``(channels, height, width)``, ``(features,)`` or any other, batch aside, for one float32 input.
        output: the number of the value that is the output, returned in float32 (or int32, after an ``argmax``).
        inputs: instead of ``input_shape``, several inputs, or token numbers.
        outputs: instead of ``output``, the numbers of several values.
        about: free text by keyword, for people: what was trained, on which data, how well.

    Example:
        >>> from signwise.program.operations import Relu
        >>> program = Program(input_shape=(2,), ops=(Relu(inputs=(0,)),), tensors={}, output=1)
        >>> program
        Program((2,) -> (2,), 1 operation, 0 weights, 0 bytes)
        >>> program(np.array([[-1.0, 2.0]]))
        array([[0., 2.]], dtype=float32)
    """

    inputs: tuple[Input, ...]
    ops: tuple[Operation, ...]
    tensors: Mapping[str, npt.NDArray[Any]]
    outputs: tuple[int, ...]
    about: Mapping[str, str]

    def __init__(
        self,
        *,
        ops: Sequence[Operation],
        tensors: Mapping[str, npt.NDArray[Any]],
        input_shape: Shape | None = None,
        output: int | None = None,
        inputs: Sequence[Input] = (),
        outputs: Sequence[int] = (),
        about: Mapping[str, str] | None = None,
    ) -> None:
        given = tuple(inputs) if input_shape is None else (Input(shape=input_shape),)
        held = {name: _read_only(tensor) for name, tensor in sorted(tensors.items())}
        fields: dict[str, Any] = {
            "inputs": given,
            "ops": tuple(ops),
            "tensors": MappingProxyType(held),
            "outputs": tuple(outputs) if output is None else (output,),
            "about": MappingProxyType(file.check_about(about or {})),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        check_tensors(self.ops, self.shapes, self.tensors)
        check_ends(self.inputs, self.outputs, self.ops)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of every value, the inputs' first."""
        return infer_shapes(self.inputs, self.ops)

    @cached_property
    def types(self) -> tuple[ValueType, ...]:
        """The type of every value, float32 or int32, the inputs' first; :meth:`quantization` says which have 8 bits."""
        return infer_types(self.inputs, self.ops)

    @property
    def input_shape(self) -> Shape:
        """The shape of the only input."""
        return only("input", self.inputs).shape

    @property
    def output(self) -> int:
        """The number of the only output."""
        return only("output", self.outputs)

    @property
    def output_shape(self) -> Shape:
        """The shape of the only output."""
        return self.shapes[self.output]

    @cached_property
    def version(self) -> int:
        """The version of the file that holds the program: the oldest that can."""
        first, *more = self.inputs
        is_old = not more and first.type == "float32" and len(first.shape) in (1, 3) and len(self.outputs) == 1
        shapes = self.shapes
        needed = [operation.version([shapes[value] for value in operation.inputs]) for operation in self.ops]
        return max(1 if is_old else 2, *needed) if needed else 1 if is_old else 2

    @property
    def nbytes(self) -> int:
        """The bytes of all tensors: the size of the file without its header."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @property
    def float32_bytes(self) -> int:
        """The bytes of all tensors if every weight were a float32, its scale multiplied in."""
        binary = [operation for operation in self.ops if isinstance(operation, Weighted) and operation.bits == 1]
        packed = {name for operation in binary for key, name in operation.tensor_names.items() if key != "bias"}
        weights = sum(math.prod(operation.weight_shape(self.shapes[operation.inputs[0]])) for operation in binary)
        return self.nbytes - sum(self.tensors[name].nbytes for name in packed) + 4 * weights

    def rows(self) -> list[Row]:
        """One row per operation, for tables; their bytes add up to the bytes of all tensors."""
        seen: set[str] = set()
        found = []
        for value, operation in enumerate(self.ops, start=len(self.inputs)):
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
                    type=self.types[value] if operation.out is None else operation.out.type,
                    bits=bits,
                    weights=weights,
                    bytes=sum(self.tensors[name].nbytes for name in own),
                )
            )
        return found

    def quantization(self, value: int) -> Quantized | None:
        """The 8-bit type of a value: ``None`` for float32 and int32, as the inputs always are."""
        return reference.out_of(self.ops, value - len(self.inputs))

    def __repr__(self) -> str:
        weights = sum(row.weights for row in self.rows())
        count = _count(len(self.ops), "operation")
        read = ", ".join(str(given.shape) for given in self.inputs)
        made = ", ".join(str(self.shapes[value]) for value in self.outputs)
        return f"Program({read} -> {made}, {count}, {weights:,} weights, {self.nbytes:,} bytes)"

    # A program never changes, so a copy is the program itself; a pickle holds the bytes of its file.

    def __copy__(self) -> Program:
        return self

    def __deepcopy__(self, memo: object) -> Program:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Program.decode, (self.encode(),)

    # Running

    # Programs with several outputs return a tuple; typed as the one array that nearly all of them return.

    def __call__(self, *inputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The outputs for a batch, with the fastest kernels of this machine and its default number of threads."""
        return self.run(inputs)

    def run(self, examples: Examples, threads: int | None = None) -> npt.NDArray[np.float32]:
        """The outputs for a batch.

        The session that this prepares serves all later calls with the same ``threads``.

        Args:
            examples: ``(batch, *input_shape)``, of any real type; several inputs as a tuple of arrays.
            threads: how many threads the call may use; ``None`` means ``SIGNWISE_THREADS``, or all cores.

        Returns:
            ``(batch, *output_shape)`` in float32, or int32 after an ``argmax``; several outputs as a tuple.
        """
        count = thread_count(threads)
        if count not in self._sessions:
            self._sessions[count] = self.session(count)
        return self._sessions[count](*_listed(examples))

    def session(self, threads: int | None = None) -> Session[Program]:
        """Prepare the program once, to run it many times; ``threads`` as for :meth:`run`."""
        return Session(self, threads)

    @cached_property
    def _sessions(self) -> dict[int, Session[Program]]:
        return {}

    def reference(self, *inputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The outputs for a batch by numpy alone: slow, and what the kernels are tested against."""
        found = reference.run(self.ops, self.tensors, self.outputs, self.as_inputs(inputs))
        outputs: npt.NDArray[np.float32] = one_or_tuple(found)
        return outputs

    def as_input(self, examples: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A batch for a program with one input; see :meth:`as_inputs`."""
        return self.as_inputs((examples,))[0]

    def as_inputs(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """A batch as the program reads it: float32 or int32, C-contiguous and aligned; other shapes are refused.

        Args:
            inputs: ``(batch, *shape)`` for each input, of any real type.
        """
        if len(inputs) != len(self.inputs):
            raise SignwiseError(
                f"the program has {_count(len(self.inputs), 'input')}, got {_count(len(inputs), 'array')}"
            )
        arrays = []
        for number, (given, array) in enumerate(zip(self.inputs, inputs, strict=True)):
            name = "the input" if len(inputs) == 1 else f"input {number}"
            arrays.append(_as_input(name, given, _as_array(name, array)))
        if len({len(array) for array in arrays}) != 1:
            raise SignwiseError(f"all inputs must have as many examples, got {[len(array) for array in arrays]}")
        return arrays

    def native_operations(self) -> Iterator[native.Operation]:
        """The operations as the C interface takes them; they point into the program's tensors."""
        for operation in self.ops:
            fields: dict[str, Any] = operation.native_fields(self.tensors)
            out = None if operation.out is None else (operation.out.number, operation.out.scale)
            yield native.describe(operation.number, operation.inputs, out=out, **fields)

    # Verbs

    def quantize(self, examples: Examples, *, six_bit_inputs: bool = True) -> Program:
        """The same program with 8-bit activations: its binary layers add integers, which is faster still.

        Args:
            examples: typical inputs to choose scales on, ``(count, *input_shape)``; several inputs as a tuple of
                arrays. A hundred examples are plenty.
            six_bit_inputs: let the inputs of 3x3 convolutions use six bits of the eight, which CPUs with VNNI run
                much faster.
        """
        inputs = self.as_inputs(_listed(examples))
        calibrated = quantize(self.inputs, self.ops, self.tensors, self.outputs, inputs, six_bit_inputs=six_bit_inputs)
        about = {**self.about, "activations": f"int8, calibrated on {len(inputs[0])} examples"}
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
        return file.write_document(file.Document(self.inputs, self.ops, self.outputs, self.about), self.version)

    @classmethod
    def from_json(cls, text: str, tensors: Mapping[str, npt.NDArray[Any]]) -> Program:
        """The inverse of :meth:`to_json`; anything unexpected is a :class:`FormatError` that names it."""
        document, version = file.read_document(text)
        program = cls(tensors=tensors, **document._asdict())
        if program.version > version:
            raise FormatError(f"a file of version {version} with what only version {program.version} has")
        return program

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


def error_text(rate: float, count: int, available: int | None = None) -> str:
    """An error rate as files and commands show it.

    Args:
        rate: from 0 to 1.
        count: how many examples it was measured on.
        available: how many there are; ``None`` for as many.

    Example:
        >>> error_text(0.006, 10_000)
        '0.60 % of 10,000 examples'
        >>> error_text(0.006, 1000, 10_000)
        '0.60 % of the first 1,000 of 10,000 examples'
    """
    part = "" if available is None or available == count else f"the first {count:,} of "
    return f"{100 * rate:.2f} % of {part}{available or count:,} examples"


def _as_array(name: str, given: Any) -> npt.NDArray[Any]:
    """An array of anything that numpy reads, and of tensors with gradients or in bfloat16, which it does not."""
    if hasattr(given, "detach"):
        given = given.detach()
        given = given.float() if str(given.dtype) == "torch.bfloat16" else given
    found = np.asarray(given)
    if found.dtype.kind == "O":
        batch = "; one batch of a loader is next(iter(loader))" if hasattr(given, "__iter__") else ""
        raise SignwiseError(f"{name} must be an array of examples, got {type(given).__name__}{batch}")
    return found


def _shape_hint(expected: tuple[int, ...], found: tuple[int, ...]) -> str:
    """What is probably wrong with the shape of images, as the end of a sentence."""
    channels_last = (*expected[1:], *expected[:1])
    if found == expected:
        return "; a single one needs a batch: x[None]"
    if len(expected) == 3 and found[1:] == channels_last:
        return "; channels come first: x.transpose(0, 3, 1, 2)"
    if len(expected) == 3 and found == channels_last:
        return "; channels come first, after the batch: x.transpose(2, 0, 1)[None]"
    return ""


def _as_input(name: str, given: Input, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if found.shape[1:] != given.shape or found.ndim != len(given.shape) + 1:
        expected = ", ".join(["batch", *map(str, given.shape)])
        raise SignwiseError(
            f"{name} must have shape ({expected}), got {found.shape}{_shape_hint(given.shape, found.shape)}"
        )
    if given.type == "float32":
        if found.dtype.kind not in "fiub":
            raise SignwiseError(f"{name} must hold real numbers, got {found.dtype}")
        return np.require(found, np.float32, ["C", "A"])
    if found.dtype.kind not in "iub":
        raise SignwiseError(f"{name} must hold whole numbers, such as tokens, got {found.dtype}")
    limits = np.iinfo(np.int32)
    if found.size and not limits.min <= int(found.min()) <= int(found.max()) <= limits.max:
        raise SignwiseError(f"{name} must hold numbers of 32 bits, got {found.min()} to {found.max()}")
    return np.require(found, np.int32, ["C", "A"])


def only(what: str, listed: Sequence[T]) -> T:
    """The only input or output of a program."""
    if len(listed) != 1:
        raise SignwiseError(f"the program has {len(listed)} {what}s, not one: see its {what}s")
    return listed[0]


def _listed(examples: Examples) -> tuple[npt.NDArray[Any], ...]:
    """One array per input; a list of numbers is an array."""
    return examples if isinstance(examples, tuple) else (examples,)


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _read_only(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    held: npt.NDArray[Any] = np.require(tensor, requirements=["C", "A"])
    if held is tensor or held.base is not None:
        held = held.view()
    held.flags.writeable = False
    return held
