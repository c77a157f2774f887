"""Functions that take several operations of a program: rounding, hyperbolic functions, statistics, distances."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from signwise.compiler.builder import Call, Known, UnsupportedError, Value
from signwise.compiler.translations.elementwise import (
    Operand,
    above,
    activation,
    arithmetic,
    other_than,
    softplus,
)
from signwise.program import operations as ops

Function = Callable[..., Value]


def of_one(function: Callable[[Call, Value], Value]) -> Function:
    """An operator of one tensor."""

    def translation(call: Call, *, self: Value) -> Value:
        return function(call, Value(call.value(self), self.layout))

    return translation


def sign(call: Call, x: Value) -> Value:
    return arithmetic(call, "subtract", above(call, x, 0.0), above(call, 0.0, x))


def ceil(call: Call, x: Value) -> Value:
    return activation(call, "negate", activation(call, "floor", activation(call, "negate", x)))


def truncate(call: Call, x: Value) -> Value:
    """Towards zero."""
    return arithmetic(call, "multiply", sign(call, x), activation(call, "floor", activation(call, "abs", x)))


def nearest(call: Call, x: Value) -> Value:
    """The nearest whole number, the even one of two: floor(x + 1/2), less 1 where that is odd and x lies halfway."""
    shifted = arithmetic(call, "add", x, 0.5)
    up = activation(call, "floor", shifted)
    halves = arithmetic(call, "multiply", up, 0.5)
    odd = arithmetic(call, "multiply", arithmetic(call, "subtract", halves, activation(call, "floor", halves)), 2.0)
    apart = other_than(call, up, shifted)
    return arithmetic(call, "subtract", up, arithmetic(call, "multiply", odd, arithmetic(call, "subtract", 1.0, apart)))


def fraction(call: Call, x: Value) -> Value:
    return arithmetic(call, "subtract", x, truncate(call, x))


ROUNDED: dict[str, Callable[[Call, Value], Value]] = {
    "floor": lambda call, x: activation(call, "floor", x),
    "trunc": truncate,
}


def divide(call: Call, *, self: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    quotient = arithmetic(call, "divide", self, other)
    return quotient if rounding_mode is None else ROUNDED[rounding_mode](call, quotient)


def remainder(rounding_mode: str) -> Function:
    """What a division that rounds leaves: floor for remainder and %, trunc for fmod."""

    def translation(call: Call, *, self: Operand, other: Operand) -> Value:
        quotient = divide(call, self=self, other=other, rounding_mode=rounding_mode)
        return arithmetic(call, "subtract", self, arithmetic(call, "multiply", quotient, other))

    return translation


def exponential(call: Call, x: Value, factor: float = 1.0) -> Value:
    return activation(call, "exp", x if factor == 1 else arithmetic(call, "multiply", x, factor))


def logarithm(call: Call, x: Value, base: float) -> Value:
    return arithmetic(call, "multiply", activation(call, "log", x), 1 / math.log(base))


def hyperbolic(call: Call, x: Value, function: str) -> Value:
    """(exp(x) ± exp(-x)) / 2."""
    return arithmetic(call, "multiply", arithmetic(call, function, exponential(call, x), exponential(call, x, -1)), 0.5)


def area_sine(call: Call, x: Value) -> Value:
    """sign(x) log(|x| + sqrt(x² + 1)), which loses no digits on the negative side."""
    root = activation(call, "sqrt", arithmetic(call, "add", activation(call, "square", x), 1.0))
    size = activation(call, "log", arithmetic(call, "add", activation(call, "abs", x), root))
    return arithmetic(call, "multiply", sign(call, x), size)


def area_cosine(call: Call, x: Value) -> Value:
    root = activation(call, "sqrt", arithmetic(call, "subtract", activation(call, "square", x), 1.0))
    return activation(call, "log", arithmetic(call, "add", x, root))


def area_tangent(call: Call, x: Value) -> Value:
    quotient = arithmetic(call, "divide", arithmetic(call, "add", x, 1.0), arithmetic(call, "subtract", 1.0, x))
    return arithmetic(call, "multiply", activation(call, "log", quotient), 0.5)


def tangent(call: Call, x: Value) -> Value:
    return arithmetic(call, "divide", activation(call, "sin", x), activation(call, "cos", x))


def soft_shrink(call: Call, *, self: Known, lambd: float = 0.5) -> Value:
    """x - clip(x, -λ, λ)."""
    value = Value(call.value(self), call.layout)
    return arithmetic(call, "subtract", value, activation(call, "clip", value, -lambd, lambd))


def clamp_to_tensors(call: Call, *, self: Known, min: Known | None = None, max: Known | None = None) -> Value:
    low = self if min is None else arithmetic(call, "maximum", self, min)
    made = low if max is None else arithmetic(call, "minimum", low, max)
    assert isinstance(made, Value)
    return made


def hypotenuse(call: Call, *, self: Value, other: Value) -> Value:
    squares = [activation(Call(call.draft, call.name, (part.layout,)), "square", part) for part in (self, other)]
    return activation(call, "sqrt", arithmetic(call, "add", *squares))


def log_add_exp(call: Call, *, self: Operand, other: Operand) -> Value:
    """max(a, b) + softplus(-|a - b|)."""
    apart = activation(call, "abs", arithmetic(call, "subtract", self, other))
    below = softplus(call, self=activation(call, "negate", apart))
    return arithmetic(call, "add", arithmetic(call, "maximum", self, other), below)


def exclusive_or(call: Call, *, self: Known, other: Known) -> Value:
    if any(isinstance(part, Value) and not part.is_condition for part in (self, other)):
        raise UnsupportedError("logic on the bits of whole numbers")
    return activation(call, "abs", arithmetic(call, "subtract", self, other))


# Along dimensions


def swapped_with_last(rank: int, axis: int) -> tuple[int, ...]:
    """The order of dimensions in which one changes places with the last; twice is as before."""
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return tuple(order)


def _reduced(call: Call, value: int, function: str, axes: tuple[int, ...], keep: bool = True) -> int:
    return call.step(ops.Reduce(inputs=(value,), function=function, axes=axes, keep=keep))


def variance(call: Call, *, self: Known, dim: Any, keepdim: bool = False, correction: float | None = None,
             unbiased: bool = True, root: bool = False) -> Value:  # fmt: skip
    """The mean of the squared distance from the mean, or its square root."""
    number, axes = call.value(self), call.of(self).axes(dim)
    count = math.prod(call.draft.shape(number)[axis] for axis in axes)
    spare = (1.0 if unbiased else 0.0) if correction is None else correction
    middle = _reduced(call, number, "mean", axes)
    distance = call.step(ops.Arithmetic(inputs=(number, middle), function="subtract"))
    squared = call.step(ops.Activation(inputs=(distance,), function="square"))
    total = Value(_reduced(call, squared, "sum", axes, keepdim), call.layout)
    made = arithmetic(call, "multiply", total, 1 / max(count - spare, 1e-30))
    return activation(call, "sqrt", made) if root else made


def variance_and_mean(call: Call, *, root: bool = False, **how: Any) -> list[Value]:
    axes = call.of(how["self"]).axes(how["dim"])
    mean = _reduced(call, call.value(how["self"]), "mean", axes, how.get("keepdim", False))
    return [variance(call, root=root, **how), Value(mean, call.layout)]


def vector_norm(call: Call, *, self: Known, ord: float, dim: Any, keepdim: bool, **_: object) -> Value:
    axes = call.of(self).axes(dim)
    sizes = activation(Call(call.draft, call.name, (call.of(self),)), "abs", self)
    if math.isinf(ord):
        return call.add(
            ops.Reduce(inputs=(sizes.number,), function="max" if ord > 0 else "min", axes=axes, keep=keepdim)
        )
    if ord <= 0:
        raise UnsupportedError(f"a norm of order {ord}")
    inner = Call(call.draft, call.name, (call.of(self),))
    powers = (
        sizes
        if ord == 1
        else activation(inner, "square", sizes)
        if ord == 2
        else arithmetic(inner, "power", sizes, ord)
    )
    total = Value(_reduced(call, powers.number, "sum", axes, keepdim), call.layout)
    return (
        total
        if ord == 1
        else activation(call, "sqrt", total)
        if ord == 2
        else arithmetic(call, "power", total, 1 / ord)
    )


def log_sum_exp(call: Call, *, self: Known, dim: Any, keepdim: bool = False) -> Value:
    """The logarithm of the sum of exponentials, which the largest is taken out of."""
    number, axes = call.value(self), call.of(self).axes(dim)
    largest = _reduced(call, number, "max", axes)
    below = call.step(ops.Arithmetic(inputs=(number, largest), function="subtract"))
    total = _reduced(call, call.step(ops.Activation(inputs=(below,), function="exp")), "sum", axes)
    logarithms = call.step(ops.Activation(inputs=(total,), function="log"))
    made = call.step(ops.Add(inputs=(logarithms, largest)))
    return Value(made if keepdim else _reduced(call, made, "sum", axes, False), call.layout)


def product(call: Call, *, self: Known, dim: int, keepdim: bool = False, dtype: object = None) -> Value:
    """Halves times halves, until one number is left."""
    value, axis = call.value(self), call.of(self).axis(dim)
    while (size := call.draft.shape(value)[axis]) > 1:
        half, shape = size // 2, call.draft.shape(value)
        parts = []
        for start, stop in ((0, half), (half, 2 * half), (2 * half, size)):
            if start < stop:
                starts, stops = [0] * len(shape), list(shape)
                starts[axis], stops[axis] = start, stop
                steps = (1,) * len(shape)
                parts.append(
                    call.step(ops.Slice(inputs=(value,), starts=tuple(starts), stops=tuple(stops), steps=steps))
                )
        value = call.step(ops.Arithmetic(inputs=(parts[0], parts[1]), function="multiply"))
        if len(parts) == 3:
            value = call.step(ops.Concat(inputs=(value, parts[2]), axis=axis))
    return Value(value if keepdim else _reduced(call, value, "sum", (axis,), False), call.layout)


def cumulative_sum(call: Call, *, self: Known, dim: int, dtype: object = None) -> Value:
    """A product with a triangular matrix of ones along the dimension."""
    value, axis = call.value(self), call.of(self).axis(dim)
    shape = call.draft.shape(value)
    size, last, turned = shape[axis], len(shape) - 1, swapped_with_last(len(shape), axis)
    weight = call.draft.tensor("ones", np.tril(np.ones((size, size))))
    if axis != last:
        value = call.step(ops.Transpose(inputs=(value,), axes=turned))
    value = call.step(ops.Dense(inputs=(value,), weight=weight, bits=32, in_features=size, out_features=size))
    return Value(call.step(ops.Transpose(inputs=(value,), axes=turned)) if axis != last else value, call.layout)


def cosine_similarity(call: Call, *, x1: Known, x2: Known, dim: int = 1, eps: float = 1e-8) -> Value:
    axes = call.of(x1).axes(dim)
    first, second = call.value(x1), call.value(x2)

    def sum_of_products(left: int, right: int) -> Value:
        products = call.step(ops.Arithmetic(inputs=(left, right), function="multiply"))
        return Value(_reduced(call, products, "sum", axes, False), call.layout)

    lengths = [
        arithmetic(call, "maximum", activation(call, "sqrt", sum_of_products(part, part)), eps)
        for part in (first, second)
    ]
    return arithmetic(call, "divide", sum_of_products(first, second), arithmetic(call, "multiply", *lengths))


def distances(call: Call, *, x1: Known, x2: Known, p: float = 2, **_: object) -> Value:
    """Of every row of the first from every row of the second."""
    if p not in (1, 2):
        raise UnsupportedError(f"distances of order {p}")
    values = []
    for known, place in ((x1, -1), (x2, -2)):
        value = call.value(known)
        shape = list(call.draft.shape(value))
        shape.insert(len(shape) + place, 1)  # (..., p, 1, width) and (..., 1, r, width)
        values.append(call.step(ops.Reshape(inputs=(value,), shape=tuple(shape))))
    apart = call.step(ops.Arithmetic(inputs=(values[0], values[1]), function="subtract"))
    sizes = call.step(ops.Activation(inputs=(apart,), function="square" if p == 2 else "abs"))
    total = Value(_reduced(call, sizes, "sum", (len(call.draft.shape(sizes)) - 1,), False), call.layout)
    return activation(call, "sqrt", total) if p == 2 else total


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("aten.sign.default", "aten.sgn.default"), of_one(sign)),
    "aten.ceil.default": of_one(ceil),
    "aten.trunc.default": of_one(truncate),
    "aten.round.default": of_one(nearest),
    "aten.frac.default": of_one(fraction),
    **dict.fromkeys(("aten.div.Tensor", "aten.div.Scalar", "aten.div.Tensor_mode", "aten.div.Scalar_mode"), divide),
    **dict.fromkeys(("aten.floor_divide.default", "aten.floor_divide.Scalar"), partial(divide, rounding_mode="floor")),
    **dict.fromkeys(("aten.remainder.Tensor", "aten.remainder.Scalar"), remainder("floor")),
    **dict.fromkeys(("aten.fmod.Tensor", "aten.fmod.Scalar"), remainder("trunc")),
    "aten.expm1.default": of_one(lambda call, x: arithmetic(call, "subtract", exponential(call, x), 1.0)),
    "aten.exp2.default": of_one(lambda call, x: exponential(call, x, math.log(2))),
    "aten.log1p.default": of_one(lambda call, x: activation(call, "log", arithmetic(call, "add", x, 1.0))),
    "aten.log2.default": of_one(lambda call, x: logarithm(call, x, 2)),
    "aten.log10.default": of_one(lambda call, x: logarithm(call, x, 10)),
    "aten.sinh.default": of_one(lambda call, x: hyperbolic(call, x, "subtract")),
    "aten.cosh.default": of_one(lambda call, x: hyperbolic(call, x, "add")),
    "aten.tan.default": of_one(tangent),
    "aten.asinh.default": of_one(area_sine),
    "aten.acosh.default": of_one(area_cosine),
    "aten.atanh.default": of_one(area_tangent),
    "aten.erfc.default": of_one(lambda call, x: arithmetic(call, "subtract", 1.0, activation(call, "erf", x))),
    "aten.softshrink.default": soft_shrink,
    **dict.fromkeys(("aten.clamp.Tensor", "aten.clamp_min.Tensor", "aten.clamp_max.Tensor"), clamp_to_tensors),
    "aten.hypot.default": hypotenuse,
    "aten.logaddexp.default": log_add_exp,
    **dict.fromkeys(("aten.logical_xor.default", "aten.__xor__.Tensor", "aten.bitwise_xor.Tensor"), exclusive_or),
    **dict.fromkeys(("aten.var.dim", "aten.var.correction"), variance),
    **dict.fromkeys(("aten.std.dim", "aten.std.correction"), partial(variance, root=True)),
    **dict.fromkeys(("aten.var_mean.dim", "aten.var_mean.correction"), variance_and_mean),
    **dict.fromkeys(("aten.std_mean.dim", "aten.std_mean.correction"), partial(variance_and_mean, root=True)),
    "aten.linalg_vector_norm.default": vector_norm,
    "aten.logsumexp.default": log_sum_exp,
    "aten.prod.dim_int": product,
    "aten.cumsum.default": cumulative_sum,
    "aten.cosine_similarity.default": cosine_similarity,
    "aten.cdist.default": distances,
}
