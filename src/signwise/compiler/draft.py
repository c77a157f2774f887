"""A program while it is being written: operations can still be added, moved and replaced.

Operations are those of the runtime. Each is kept under the number of the value that it makes, in an order in which they
can run; numbers stay the same while operations come and go, and become dense in the finished program. Tensors are kept
in float64 until then, so that folding many factors into one rounds once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.program import operations as ops
from signwise.program.checks import Shape, output_shape
from signwise.program.program import Program

TENSORS = ("weight", "scale", "bias")  # the attributes of operations that name tensors


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
        """Append an operation that stands for the module ``name``; returns the value that it makes."""
        value = max(self._shapes) + 1
        self.names[value] = name
        self.put(value, operation)
        return value

    def put(self, value: int, operation: ops.Operation) -> None:
        """Make ``value`` by this operation, in the place of the one that made it before."""
        self._shapes[value] = output_shape(operation, [self._shapes[source] for source in operation.inputs])
        self.ops[value] = operation

    def insert_first(self, operation: ops.Operation, name: str) -> None:
        """Put an operation between the program's input and everything that reads it."""
        value = max(self._shapes) + 1
        self.redirect(0, value)
        self.names[value] = name
        self._shapes[value] = output_shape(operation, [self.input_shape])
        self.ops = {value: operation, **self.ops}

    def remove(self, value: int) -> None:
        """Take away an operation that nothing reads any more."""
        del self.ops[value], self.names[value]

    def redirect(self, old: int, new: int) -> None:
        """Let everything that reads ``old`` read ``new`` instead."""
        for value, operation in self.ops.items():
            if old in operation.inputs:
                inputs = tuple(new if source == old else source for source in operation.inputs)
                self.ops[value] = replace(operation, inputs=inputs)
        if self.output == old:
            self.output = new

    def has_one_reader(self, value: int) -> bool:
        """Whether exactly one operation reads the value, once, and it is not the program's answer."""
        reads = sum(operation.inputs.count(value) for operation in self.ops.values())
        return reads == 1 and value not in (0, self.output)

    def tensor(self, name: str, numbers: npt.NDArray[Any]) -> str:
        """Keep a tensor under a name like ``name`` that no other has; returns that name."""
        free, number = name, 1
        while free in self.tensors:
            number += 1
            free = f"{name}.{number}"
        self.tensors[free] = numbers
        return free

    def finish(self, about: Mapping[str, str]) -> Program:
        """The program, with what nothing reads left out."""
        needed = {self.output}
        for value in reversed(self.ops):
            if value in needed:
                needed.update(self.ops[value].inputs)
        kept = {value: operation for value, operation in self.ops.items() if value in needed}
        number = {0: 0, **{value: index + 1 for index, value in enumerate(kept)}}
        operations = tuple(
            replace(operation, inputs=tuple(number[source] for source in operation.inputs))
            for operation in kept.values()
        )
        final = self._final_names(kept)
        return Program(
            input_shape=self.input_shape,
            ops=tuple(_renamed(operation, final) for operation in operations),
            tensors={name: _storable(self.tensors[key]) for key, name in final.items()},
            output=number[self.output],
            about=about,
        )

    def _final_names(self, kept: Mapping[int, ops.Operation]) -> dict[str, str]:
        """What each tensor is called in the file: by its module and what it is there, numbered where that repeats."""
        final: dict[str, str] = {}
        for value, operation in kept.items():
            for attribute in TENSORS:
                key = getattr(operation, attribute, None)
                if key is None or key in final:
                    continue
                name, repeat = f"{self.names[value]}.{attribute}", 1
                while name in final.values():
                    repeat += 1
                    name = f"{self.names[value]}.{attribute}.{repeat}"
                final[key] = name
        return final


def _renamed(operation: ops.Operation, final: Mapping[str, str]) -> ops.Operation:
    keys = {attribute: getattr(operation, attribute, None) for attribute in TENSORS}
    names: dict[str, Any] = {attribute: final[key] for attribute, key in keys.items() if key is not None}
    return replace(operation, **names)


def _storable(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return tensor if tensor.dtype == np.uint8 else tensor.astype(np.float32)
