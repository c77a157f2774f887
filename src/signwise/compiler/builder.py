"""A program under construction: a draft of operations, what is known of each tensor, and the call being translated.

A :class:`Draft` holds the operations of :mod:`signwise.program.operations` by the number of the value that each makes,
in an order in which they can run. Numbers stay the same while operations come and go, and become dense in the finished
program. Tensors stay float64 until then, so that folding many factors into one rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt
from torch import Tensor

from signwise.program import operations as ops
from signwise.program.checks import Input
from signwise.program.operations import Shape, pack_signs
from signwise.program.operations.base import MovesIntegers
from signwise.program.program import Program

Numbers: TypeAlias = npt.NDArray[np.float64]


class Draft:
    """An unfinished program.

    Args:
        inputs: the inputs, or the shapes of float32 ones; they are the first values.

    Example:
        >>> draft = Draft((3,))
        >>> draft.output = draft.add(ops.Relu(inputs=(0,)), "activation")
        >>> draft.finish({}).output_shape
        (3,)
    """

    def __init__(self, *inputs: Input | Shape) -> None:
        self.inputs = [given if isinstance(given, Input) else Input(shape=given) for given in inputs]
        self.ops: dict[int, ops.Operation] = {}
        self.names: dict[int, str] = {}
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        self.outputs: list[int] = [0]
        self._shapes: dict[int, Shape] = {number: given.shape for number, given in enumerate(self.inputs)}
        self._reals: dict[int, int] = {}  # whole numbers by value, and the same as float32

    @property
    def output(self) -> int:
        """The first output, for drafts that have one."""
        return self.outputs[0]

    @output.setter
    def output(self, value: int) -> None:
        self.outputs = [value]

    def shape(self, value: int) -> Shape:
        return self._shapes[value]

    def is_integer(self, value: int) -> bool:
        """Whether the value holds whole numbers, such as tokens."""
        if value < len(self.inputs):
            return self.inputs[value].type == "int32"
        operation = self.ops.get(value)
        if isinstance(operation, MovesIntegers):
            return self.is_integer(operation.inputs[0])
        return isinstance(operation, ops.ArgMax)

    def real(self, value: int) -> int:
        """Whole numbers as float32, to compute with: a table of 0, 1, 2, ... that they look up.

        :meth:`settle` decides how long the table of an input is, and whether there has to be one.
        """
        if value not in self._reals:
            source = self._source(value)
            rows = 1 if source < len(self.inputs) else self._positions(source)
            table = self.tensor("whole numbers", np.arange(rows, dtype=np.float64)[:, None])
            looked_up = ops.Embedding(inputs=(value,), weight=table, rows=rows, width=1)
            found = self.add(looked_up, self.names.get(value, "input"))
            self._reals[value] = self.add(ops.Reshape(inputs=(found,), shape=self.shape(value)), self.names[found])
        return self._reals[value]

    def _source(self, value: int) -> int:
        """The input or operation that whole numbers come from."""
        operation = self.ops.get(value)
        return self._source(operation.inputs[0]) if isinstance(operation, MovesIntegers) else value

    def _positions(self, value: int) -> int:
        operation = self.ops[value]
        assert isinstance(operation, ops.ArgMax)
        return self.shape(operation.inputs[0])[operation.axis]

    def settle(self) -> None:
        """Let inputs of whole numbers that nothing looks up be float32; the others get tables to compute with."""
        tables = {self.ops[real].inputs[0]: value for value, real in self._reals.items()}
        for value, given in enumerate(self.inputs):
            read = [looked_up for looked_up, source in tables.items() if self._source(source) == value]
            if given.type != "int32" or not read:
                continue
            rows = [
                operation.rows
                for number, operation in self.ops.items()
                if isinstance(operation, ops.Embedding) and number not in tables
                if self._source(operation.inputs[0]) == value
            ]
            if not rows:
                self.inputs[value] = replace(given, type="float32")
            for looked_up in read:
                if rows:
                    operation = self.ops[looked_up]
                    assert isinstance(operation, ops.Embedding)
                    self.tensors[operation.weight] = np.arange(max(rows), dtype=np.float64)[:, None]
                    self.ops[looked_up] = replace(operation, rows=max(rows))
                else:
                    source = tables[looked_up]
                    self.redirect(self._reals[source], source)
                    self.remove(self._reals[source])
                    self.remove(looked_up)

    def unknown(self, shape: Shape) -> int:
        """A value that nothing makes, in the place of what cannot be expressed."""
        value = max(self._shapes) + 1
        self._shapes[value] = shape
        return value

    def add(self, operation: ops.Operation, name: str) -> int:
        """Append an operation of the module ``name``; returns the number of its result."""
        value = max(self._shapes) + 1
        self.names[value] = name
        self.put(value, operation)
        return value

    def put(self, value: int, operation: ops.Operation) -> None:
        """Make ``value`` by this operation instead of the one that made it before."""
        self._shapes[value] = operation.output_shape([self._shapes[source] for source in operation.inputs])
        self.ops[value] = operation

    def remove(self, value: int) -> None:
        """Remove an operation whose result nothing reads."""
        del self.ops[value], self.names[value]

    def redirect(self, old: int, new: int) -> None:
        """Make every reader of ``old`` read ``new`` instead."""
        for value, operation in self.ops.items():
            if old in operation.inputs:
                inputs = tuple(new if source == old else source for source in operation.inputs)
                self.ops[value] = replace(operation, inputs=inputs)
        self.outputs = [new if output == old else output for output in self.outputs]

    def has_one_reader(self, value: int) -> bool:
        """Whether one operation reads the value, once, and it is neither an input of the program nor an output."""
        reads = sum(operation.inputs.count(value) for operation in self.ops.values())
        return reads == 1 and value in self.ops and value not in self.outputs

    def tensor(self, name: str, numbers: npt.NDArray[Any]) -> str:
        """Store a tensor under ``name``, numbered if another has that name; returns the name."""
        free, number = name, 1
        while free in self.tensors:
            number += 1
            free = f"{name}.{number}"
        self.tensors[free] = numbers
        return free

    def finish(self, about: Mapping[str, str]) -> Program:
        """The program, without operations whose result nothing reads."""
        needed = set(self.outputs)
        for value in reversed(self.ops):
            if value in needed:
                needed.update(self.ops[value].inputs)
        used = {value: operation for value, operation in self.ops.items() if value in needed}
        number = {value: index for index, value in enumerate([*range(len(self.inputs)), *used])}
        operations = tuple(
            replace(operation, inputs=tuple(number[source] for source in operation.inputs))
            for operation in used.values()
        )
        final = self._final_names(used)
        return Program(
            inputs=self.inputs,
            ops=tuple(_renamed(operation, final) for operation in operations),
            tensors={name: _storable(self.tensors[key]) for key, name in final.items()},
            outputs=[number[value] for value in self.outputs],
            about=about,
        )

    def _final_names(self, used: Mapping[int, ops.Operation]) -> dict[str, str]:
        """The name of each tensor in the file: its module and attribute, numbered where that repeats."""
        final: dict[str, str] = {}
        for value, operation in used.items():
            for attribute, key in operation.tensor_names.items():
                if key in final:
                    continue
                name, repeat = f"{self.names[value]}.{attribute}", 1
                while name in final.values():
                    repeat += 1
                    name = f"{self.names[value]}.{attribute}.{repeat}"
                final[key] = name
        return final


def _renamed(operation: ops.Operation, final: Mapping[str, str]) -> ops.Operation:
    names: dict[str, Any] = {attribute: final[key] for attribute, key in operation.tensor_names.items()}
    return replace(operation, **names)


def _storable(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return tensor if tensor.dtype == np.uint8 else tensor.astype(np.float32)


class UnsupportedError(Exception):
    """A program cannot express something; the message says why."""


@dataclass(frozen=True)
class Layout:
    """Where PyTorch's tensor has the batch, which a program leaves out.

    Args:
        sizes: PyTorch's; in the place of the batch, how many rows each example has there, usually one.
        batch: the dimension that counts the examples.
        outer: whether the rows of that dimension come before the examples instead of after them.

    Example:
        >>> Layout((10, 1, 24), 1).shape  # tokens, batch, width
        (10, 24)
        >>> Layout((4, 10, 6), 0).shape  # four heads per example, merged with the batch
        (4, 10, 6)
    """

    sizes: tuple[int, ...]
    batch: int
    outer: bool = False

    @property
    def before(self) -> int:
        """How many numbers of an example lie before the batch in PyTorch's memory."""
        return math.prod(self.sizes[: self.batch + self.outer])

    @property
    def merged(self) -> bool:
        return self.sizes[self.batch] > 1

    @property
    def shape(self) -> Shape:
        """Of one example."""
        return tuple(size for axis, size in enumerate(self.sizes) if axis != self.batch or self.merged)

    def axis(self, dim: int) -> int:
        """PyTorch's dimension as one of the example's."""
        dim %= len(self.sizes)
        if dim == self.batch:
            raise UnsupportedError("it works across the examples of a batch")
        return dim if dim < self.batch or self.merged else dim - 1

    def axes(self, dims: Sequence[int] | int | None) -> tuple[int, ...]:
        """Several of them, in rising order; ``None`` means all."""
        if dims is None or dims == []:
            raise UnsupportedError("it works across the examples of a batch")
        return tuple(sorted(self.axis(dim) for dim in ([dims] if isinstance(dims, int) else dims)))


@dataclass(frozen=True)
class Value:
    """A tensor that depends on the input, by its number in the draft.

    Args:
        number: in the draft.
        layout: where PyTorch's tensor has the batch.
        is_condition: whether it is one of true and false, which a program holds as 1 and 0.
        is_whole: whether PyTorch has whole numbers here, which a program may hold as float32.
    """

    number: int
    layout: Layout
    is_condition: bool = False
    is_whole: bool = False


EXAMPLES = 2  # constants that depend on the size of the batch are computed for this many
LARGE = 1e30  # stands for infinity in masks: files hold finite numbers


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor that does not depend on the input; the signs of a binary layer come with their scale per filter.

    Args:
        tensor: the numbers; with a ``layout``, for a batch of ``EXAMPLES``.
        name: where it comes from.
        is_signs: whether it is the weight of a binary layer.
        scale: of its filters.
        layout: where the batch is, if its size depends on it.
    """

    tensor: Tensor
    name: str
    is_signs: bool = False
    scale: Tensor | None = None
    layout: Layout | None = None

    def numbers(self) -> Numbers:
        if self.is_signs:
            raise UnsupportedError("it reads the weight of a binary layer directly")
        numbers: Numbers = self.tensor.detach().double().numpy()
        return np.clip(numbers, -LARGE, LARGE) if np.isinf(numbers).any() else numbers

    def example(self, beside: Layout) -> Numbers:
        """The numbers of one example, to broadcast with a value of the layout ``beside``."""
        numbers = self.numbers()
        at = beside.batch - (len(beside.sizes) - numbers.ndim)
        if self.layout is not None:
            first, second = np.split(numbers, EXAMPLES, self.layout.batch)
            if not np.array_equal(first, second):
                raise UnsupportedError("a tensor that differs between the examples of a batch")
            numbers = numbers.take(range(self.layout.sizes[self.layout.batch]), axis=self.layout.batch)
            if self.layout.batch != at:
                raise UnsupportedError("the batch is another dimension of each operand")
        if at < 0:
            return numbers
        if numbers.shape[at] != 1 and not (self.layout and beside.merged):
            raise UnsupportedError(f"a constant of shape {list(numbers.shape)}, with other numbers for every example")
        return numbers if beside.merged else numbers.squeeze(at)


Known: TypeAlias = Union[Value, Constant]


@dataclass(frozen=True)
class Call:
    """One call of a PyTorch operator.

    Args:
        draft: receives the translation.
        name: the module that makes the call.
        layouts: of the results, most operators having one.
    """

    draft: Draft
    name: str
    layouts: tuple[Layout, ...]

    @property
    def layout(self) -> Layout:
        return self.layouts[0]

    @property
    def shape(self) -> Shape:
        """Of the result, per example."""
        return self.layout.shape

    def value(self, known: object, *, whole_numbers: bool = False) -> int:
        """The number of a value in the draft; a constant becomes one.

        Args:
            known: what is known of the argument.
            whole_numbers: whether the operation reads tokens, too; others read them as float32.
        """
        if isinstance(known, Constant):
            layout = self.layout if known.layout is None else known.layout
            numbers = known.example(layout)
            tensor = self.draft.tensor("constant", numbers)
            return self.step(ops.Constant(inputs=(), tensor=tensor, shape=numbers.shape))
        if not isinstance(known, Value):
            raise UnsupportedError(f"it reads {known!r}")
        if not whole_numbers and self.draft.is_integer(known.number):
            return self.draft.real(known.number)
        return known.number

    def image(self, known: object) -> int:
        """The number of a batch of images, with the batch first."""
        number, layout = self.value(known), self.of(known)
        if len(layout.shape) != 3 or layout.batch or layout.merged:
            raise UnsupportedError(f"an image of shape {list(layout.shape)}, not (channels, height, width)")
        return number

    def of(self, known: object) -> Layout:
        """The layout of a value."""
        if not isinstance(known, Value):
            raise UnsupportedError("it reads a tensor that does not depend on the input")
        return known.layout

    def constant(self, known: object) -> Constant:
        """A constant; anything else is refused."""
        if not isinstance(known, Constant):
            raise UnsupportedError("its weights depend on the input")
        return known

    def step(self, operation: ops.Operation) -> int:
        """Append an operation on the way to the result."""
        return self.draft.add(operation, self.name)

    def add(self, operation: ops.Operation) -> Value:
        """Append the operation that makes the result."""
        return Value(self.step(operation), self.layout)

    def affine(self, value: int, scale: Numbers, bias: Numbers) -> Value:
        """Append scale * value + bias, per channel."""
        scale_name, bias_name = self.draft.tensor("scale", scale), self.draft.tensor("bias", bias)
        return self.add(ops.Affine(inputs=(value,), scale=scale_name, bias=bias_name))

    def layer_tensors(self, weight: Constant, bias: Known | None) -> dict[str, Any]:
        """The tensors of a layer by attribute; a weight that several layers share is stored once."""
        name = f"shared {weight.name}"
        if name not in self.draft.tensors:
            self.draft.tensors[name] = pack_signs(weight.tensor.numpy()) if weight.is_signs else weight.numbers()
        scale = None if weight.scale is None else self.draft.tensor("scale", weight.scale.double().numpy())
        offset = None if bias is None else self.draft.tensor("bias", self.constant(bias).numbers())
        return {"weight": name, "bits": 1 if weight.is_signs else 32, "scale": scale, "bias": offset}


def float32(number: float) -> float:
    """The nearest number that a file can hold."""
    return float(np.float32(number))
