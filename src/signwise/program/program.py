"""A program: operations, their tensors, and the verbs on them.

The inputs are the first values; each operation makes one more and reads only earlier ones; one value or several are the
outputs. The batch is symbolic: shapes leave it out. A program that exists is valid: everything is checked when it is
made, from a file or from the compiler.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, Union

import numpy as np
import numpy.typing as npt

from signwise.errors import FormatError, SignwiseError
from signwise.program import file, reference
from signwise.program.arrays import as_inputs, read_only
from signwise.program.checks import Input, check_ends, check_tensors, infer_shapes, infer_types
from signwise.program.integers.planner import plan_integers
from signwise.program.integers.program import IntegerProgram
from signwise.program.measures import BATCH, Row, error_rate
from signwise.program.operations import Operation, Quantized, Shape, ValueType, Weighted
from signwise.program.quantize import quantize
from signwise.runtime import native
from signwise.runtime.session import Session, one_or_tuple, thread_count
from signwise.text import counted

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
        held = {name: read_only(tensor) for name, tensor in sorted(tensors.items())}
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
        count = counted(len(self.ops), "operation")
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
        return as_inputs(self.inputs, inputs)

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

    def to_integers(self, examples: npt.NDArray[Any]) -> IntegerProgram:
        """The same program in integers alone, as microcontrollers run it; see :class:`IntegerProgram`.

        Args:
            examples: typical inputs to choose scales on, ``(count, *input_shape)``; a hundred are plenty. The 8-bit
                values of a quantized program keep their scales.

        Raises:
            SignwiseError: an operation of the program has no integer form; the message names it.

        Example:
            >>> from signwise.datasets import load as load_images
            >>> program = Program.load("tiny_cnn-mnist-1bit")
            >>> program.to_integers(load_images("mnist").train_images[:16])
            IntegerProgram((1, 28, 28) -> (10,), 7 steps, 49,008 weights, 7,788 bytes)
        """
        inputs = self.as_input(examples)
        steps, kind, output_scale = plan_integers(self.ops, self.tensors, self.shapes, self.output, inputs)
        about = {**self.about, "integers": f"scales chosen on {len(inputs)} examples"}
        if "error" in about:  # of this program, not of its integer form
            about["error before integers"] = about.pop("error")
        return IntegerProgram(
            input_shape=self.input_shape, input_type=kind, steps=steps, output_scale=output_scale, about=about
        )

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
        return file.load(source, cls.decode)


def load_any(source: str | PathLike[str]) -> Program | IntegerProgram:
    """The program in a ``.sw`` file, whichever kind it is; ``source`` as for :func:`load`."""
    return file.load(source, decode_any)


def decode_any(data: bytes) -> Program | IntegerProgram:
    """The program in the bytes of a ``.sw`` file, whichever kind it is, or a :class:`FormatError`."""
    text, tensors = file.decode(data)
    if file.version_of(text) in file.INTEGER_VERSIONS:
        return IntegerProgram.from_json(text, tensors)
    return Program.from_json(text, tensors)


def load(source: str | PathLike[str], threads: int | None = None) -> Session[Program] | Session[IntegerProgram]:
    """Read a ``.sw`` file and prepare it to run; everything is checked before anything runs.

    A program in integers alone runs in numpy and gives the integers of its C code: see :class:`IntegerProgram`.

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
    return load_any(source).session(threads)


def only(what: str, listed: Sequence[T]) -> T:
    """The only input or output of a program."""
    if len(listed) != 1:
        raise SignwiseError(f"the program has {len(listed)} {what}s, not one: see its {what}s")
    return listed[0]


def _listed(examples: Examples) -> tuple[npt.NDArray[Any], ...]:
    """One array per input; a list of numbers is an array."""
    return examples if isinstance(examples, tuple) else (examples,)
