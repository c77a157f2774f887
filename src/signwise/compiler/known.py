"""What the compiler knows of a tensor while it reads a model, and of the operator that it is reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt
from torch import Tensor

from signwise.compiler.draft import Draft
from signwise.program import operations as ops
from signwise.program.bits import pack_signs

Numbers: TypeAlias = npt.NDArray[np.float64]


class UnsupportedError(Exception):
    """A program cannot express this; the message says why."""


@dataclass(frozen=True)
class Value:
    """A tensor that depends on the input, by its number in the draft."""

    number: int


@dataclass(frozen=True)
class Padded:
    """An image with zeros around it, which waits for a convolution to add them to its own padding."""

    number: int
    padding: ops.Padding


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor that does not depend on the input; for the signs of a binary layer, with the scale per filter."""

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
    """One use of an operator.

    Args:
        draft: where its translation goes.
        name: the module that asks for it.
        shape: the result's shape, of one example.
    """

    draft: Draft
    name: str
    shape: tuple[int, ...]

    def value(self, known: object) -> int:
        """The number of a value; anything else is refused."""
        if isinstance(known, Padded):
            raise UnsupportedError("zeros around an image that no convolution follows")
        if not isinstance(known, Value):
            raise UnsupportedError("it works on something that does not depend on the input")
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
        """The tensors of a layer, as its operation names them; a weight that several layers share is kept once."""
        name = f"shared {weight.name}"
        if name not in self.draft.tensors:
            kept = pack_signs(weight.tensor.numpy()) if weight.is_signs else weight.numbers()
            self.draft.tensors[name] = kept
        scale = None if weight.scale is None else self.draft.tensor("scale", weight.scale.double().numpy())
        offset = None if bias is None else self.draft.tensor("bias", self.constant(bias).numbers())
        return {"weight": name, "bits": 1 if weight.is_signs else 32, "scale": scale, "bias": offset}
