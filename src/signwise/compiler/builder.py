"""A program under construction: a draft of operations, what is known of each tensor, and the call being translated.

A :class:`Draft` holds the operations of :mod:`signwise.program.operations` by the number of the value that each makes,
in an order in which they can run. Numbers stay the same while operations come and go, and become dense in the finished
program. Tensors stay float64 until then, so that folding many factors into one rounds once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt
from torch import Tensor

from signwise.program import operations as ops
from signwise.program.operations import Shape, pack_signs
from signwise.program.program import Program

Numbers: TypeAlias = npt.NDArray[np.float64]


class Draft:
    """An unfinished program.

    Args:
        input_shape: the shape of one example; it is value 0.

    Example:
        >>> draft = Draft((3,))
        >>> draft.output = draft.add(ops.Relu(inputs=(0,)), "activation")
        >>> draft.finish({}).output_shape
        (3,)
    """

    def __init__(self, input_shape: Shape) -> None:
        self.input_shape = input_shape
        self.ops: dict[int, ops.Operation] = {}
        self.names: dict[int, str] = {}
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        self.output = 0
        self._shapes: dict[int, Shape] = {0: input_shape}

    def shape(self, value: int) -> Shape:
        return self._shapes[value]

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
        if self.output == old:
            self.output = new

    def has_one_reader(self, value: int) -> bool:
        """Whether one operation reads the value, once, and it is neither the program's input nor its output."""
        reads = sum(operation.inputs.count(value) for operation in self.ops.values())
        return reads == 1 and value not in (0, self.output)

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
        needed = {self.output}
        for value in reversed(self.ops):
            if value in needed:
                needed.update(self.ops[value].inputs)
        used = {value: operation for value, operation in self.ops.items() if value in needed}
        number = {0: 0, **{value: index + 1 for index, value in enumerate(used)}}
        operations = tuple(
            replace(operation, inputs=tuple(number[source] for source in operation.inputs))
            for operation in used.values()
        )
        final = self._final_names(used)
        return Program(
            input_shape=self.input_shape,
            ops=tuple(_renamed(operation, final) for operation in operations),
            tensors={name: _storable(self.tensors[key]) for key, name in final.items()},
            output=number[self.output],
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
class Value:
    """A tensor that depends on the input, by its number in the draft."""

    number: int


@dataclass(frozen=True)
class Padded:
    """An image with zeros around it, until a convolution adds them to its own padding."""

    number: int
    padding: ops.Padding


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor that does not depend on the input; the signs of a binary layer come with their scale per filter."""

    tensor: Tensor
    name: str
    is_signs: bool = False
    scale: Tensor | None = None

    def numbers(self) -> Numbers:
        if self.is_signs:
            raise UnsupportedError("it reads the weight of a binary layer directly")
        numbers: Numbers = self.tensor.detach().double().numpy()
        return numbers


Known: TypeAlias = Union[Value, Padded, Constant]


@dataclass(frozen=True)
class Call:
    """One call of a PyTorch operator.

    Args:
        draft: receives the translation.
        name: the module that makes the call.
        shape: of the result, per example.
    """

    draft: Draft
    name: str
    shape: tuple[int, ...]

    def value(self, known: object) -> int:
        """The number of a value; anything else is refused."""
        if isinstance(known, Padded):
            raise UnsupportedError("zeros around an image that no convolution follows")
        if not isinstance(known, Value):
            raise UnsupportedError("it reads a tensor that does not depend on the input")
        return known.number

    def constant(self, known: object) -> Constant:
        """A constant; anything else is refused."""
        if not isinstance(known, Constant):
            raise UnsupportedError("its weights depend on the input")
        return known

    def add(self, operation: ops.Operation) -> Value:
        """Append an operation."""
        return Value(self.draft.add(operation, self.name))

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
