"""Sums and products in a model: of two values, or of a value and constants, which are per-channel affine maps."""

from __future__ import annotations

import numpy as np

from signwise.compiler.known import Call, Constant, Known, Numbers, Padded, UnsupportedError, Value
from signwise.program import operations as ops


def _per_channel(call: Call, value: int, operand: Known | float) -> Numbers:
    """A number or constant tensor as one number a channel, if it is the same all over each channel."""
    shape = call.draft.shape(value)
    numbers = operand.numbers() if isinstance(operand, Constant) else np.asarray(operand, dtype=np.float64)
    if numbers.size == 1:
        return np.full(shape[0], numbers.item())
    aligned = (*[1] * (len(shape) + 1 - numbers.ndim), *numbers.shape)
    if call.shape != shape or aligned != (1, shape[0], *[1] * (len(shape) - 1)):
        raise UnsupportedError(f"a constant of shape {list(numbers.shape)}, which is not one number a channel")
    return numbers.reshape(-1)


def _depends_on_input(operand: object) -> bool:
    return isinstance(operand, Value | Padded)


def add(call: Call, *, self: Known | float, other: Known | float, alpha: float = 1) -> Value:
    if _depends_on_input(self) and _depends_on_input(other):
        first, second = call.value(self), call.value(other)
        if alpha != 1 or call.draft.shape(first) != call.draft.shape(second):
            raise UnsupportedError("an addition of different shapes, or with a factor")
        return call.add(ops.Add(inputs=(first, second)))
    if _depends_on_input(self):
        value = call.value(self)
        offset = alpha * _per_channel(call, value, other)
        return call.affine(value, np.ones_like(offset), offset)
    value = call.value(other)
    offset = _per_channel(call, value, self)
    return call.affine(value, np.full_like(offset, alpha), offset)


def subtract(call: Call, *, self: Known | float, other: Known | float, alpha: float = 1) -> Value:
    if _depends_on_input(self) and _depends_on_input(other):
        raise UnsupportedError("a difference of two values")
    return add(call, self=self, other=other, alpha=-alpha)


def reverse_subtract(call: Call, *, self: Known, other: Known | float, alpha: float = 1) -> Value:
    return subtract(call, self=other, other=self, alpha=alpha)


def multiply(call: Call, *, self: Known | float, other: Known | float) -> Value:
    if _depends_on_input(self) and _depends_on_input(other):
        raise UnsupportedError("a product of two values")
    known, factor = (self, other) if _depends_on_input(self) else (other, self)
    value = call.value(known)
    scale = _per_channel(call, value, factor)
    return call.affine(value, scale, np.zeros_like(scale))


def divide(call: Call, *, self: Known | float, other: Known | float) -> Value:
    if _depends_on_input(other):
        raise UnsupportedError("a division by something that depends on the input")
    value = call.value(self)
    scale = 1 / _per_channel(call, value, other)
    return call.affine(value, scale, np.zeros_like(scale))
