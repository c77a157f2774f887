"""Activations and arithmetic: of two values, or of a value and constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from signwise.compiler.builder import LARGE, Call, Constant, Known, Numbers, UnsupportedError, Value, float32
from signwise.program import operations as ops

Operand = Known | float


def activation(call: Call, function: str, known: Known, *numbers: float) -> Value:
    rounded = tuple(float32(number) for number in numbers)
    return call.add(ops.Activation(inputs=(call.value(known),), function=function, numbers=rounded))


def simple(function: str) -> Callable[..., Value]:
    """An operator that is one function of a tensor."""

    def translation(call: Call, *, self: Known, **_: object) -> Value:
        return activation(call, function, self)

    return translation


def relu(call: Call, *, self: Known) -> Value:
    return call.add(ops.Relu(inputs=(call.value(self),)))


def gelu(call: Call, *, self: Known, approximate: str = "none") -> Value:
    return activation(call, "gelu_tanh" if approximate == "tanh" else "gelu", self)


def leaky_relu(call: Call, *, self: Known, negative_slope: float) -> Value:
    return activation(call, "leaky_relu", self, negative_slope)


def elu(call: Call, *, self: Known, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    return activation(call, "elu", self, alpha, scale, input_scale)


def selu(call: Call, *, self: Known) -> Value:
    return elu(call, self=self, alpha=1.6732632423543772, scale=1.0507009873554805)


def celu(call: Call, *, self: Known, alpha: float = 1) -> Value:
    return elu(call, self=self, alpha=alpha, input_scale=1 / alpha)


def softplus(call: Call, *, self: Known, beta: float = 1, threshold: float = 20) -> Value:
    return activation(call, "softplus", self, beta, threshold)


def log_sigmoid(call: Call, *, self: Known) -> Value:
    """-softplus(-x)."""
    made = activation(call, "negate", self)
    return activation(call, "negate", softplus(call, self=made))


def clamp(call: Call, *, self: Known, min: float | None = None, max: float | None = None) -> Value:
    if max is None:
        return relu(call, self=self) if min == 0 else arithmetic(call, "maximum", self, min or 0.0)
    if min is None:
        return arithmetic(call, "minimum", self, max)
    return activation(call, "clip", self, min, max)


def hardtanh(call: Call, *, self: Known, min_val: float = -1, max_val: float = 1) -> Value:
    return activation(call, "clip", self, min_val, max_val)


def relu6(call: Call, *, self: Known) -> Value:
    return activation(call, "clip", self, 0, 6)


def prelu(call: Call, *, self: Known, weight: Known) -> Value:
    slopes = call.constant(weight).numbers()
    if slopes.size == 1:
        return activation(call, "leaky_relu", self, slopes.item())
    if call.of(self).axis(1) != 0:
        raise UnsupportedError("a PReLU whose channels do not follow the batch")
    return call.add(ops.PRelu(inputs=(call.value(self),), slope=call.draft.tensor("slope", slopes)))


def binary_activation(call: Call, *, input: Known, approximate: bool) -> Value:
    """The sign; a shift per channel before it becomes its threshold when the program is fused."""
    return call.add(ops.Sign(inputs=(call.value(input),)))


def glu(call: Call, *, self: Known, dim: int = -1) -> Value:
    """The first half times the sigmoid of the second."""
    number, axis = call.value(self), call.of(self).axis(dim)
    shape = call.draft.shape(number)
    half = shape[axis] // 2
    starts, stops = [0] * len(shape), list(shape)
    parts = []
    for start in (0, half):
        starts[axis], stops[axis] = start, start + half
        parts.append(
            call.step(ops.Slice(inputs=(number,), starts=tuple(starts), stops=tuple(stops), steps=(1,) * len(shape)))
        )
    gate = call.step(ops.Activation(inputs=(parts[1],), function="sigmoid"))
    return call.add(ops.Arithmetic(inputs=(parts[0], gate), function="multiply"))


# Arithmetic


def arithmetic(call: Call, function: str, first: Operand, second: Operand) -> Value:
    """first ∘ second, of two values or a value and a constant."""
    if isinstance(first, Value) and isinstance(second, Value):
        pair = call.value(first), call.value(second)
        _same_batch(call, first, second)
        if function == "add" and call.draft.shape(pair[0]) == call.draft.shape(pair[1]):
            return call.add(ops.Add(inputs=pair))
        return call.add(ops.Arithmetic(inputs=pair, function=function))
    swapped = not isinstance(first, Value)
    known, other = (second, first) if swapped else (first, second)
    assert isinstance(known, Value)
    value = call.value(known)
    numbers = other.example(call.layout) if isinstance(other, Constant) else np.asarray(other, np.float64)
    return _with_constant(call, function, value, numbers, swapped)


def _same_batch(call: Call, *values: Value) -> None:
    if len({value.layout.batch - len(value.layout.sizes) for value in values}) != 1:
        raise UnsupportedError("the batch is another dimension of each operand")


def _with_constant(call: Call, function: str, value: int, numbers: Numbers, swapped: bool) -> Value:
    if function == "divide" and not swapped:
        function, numbers = "multiply", 1 / numbers
    if function == "subtract" and not swapped:
        function, numbers = "add", -numbers
    if function in ("add", "multiply"):
        swapped = False
    per_channel = _per_channel(call, value, numbers)
    if per_channel is not None and function in ("add", "subtract", "multiply"):
        zeros, ones = np.zeros_like(per_channel), np.ones_like(per_channel)
        scale = per_channel if function == "multiply" else -ones if function == "subtract" else ones
        return call.affine(value, scale, zeros if function == "multiply" else per_channel)
    operand = call.draft.tensor("operand", numbers)
    made = ops.Arithmetic(inputs=(value,), function=function, operand=operand, shape=numbers.shape, swapped=swapped)
    return call.add(made)


def _per_channel(call: Call, value: int, numbers: Numbers) -> Numbers | None:
    """One number per channel of a vector or an image, where the constant is that: a layer absorbs it."""
    shape = call.draft.shape(value)
    if len(shape) not in (1, 3) or call.shape != shape:
        return None
    if numbers.size == 1:
        return np.full(shape[0], numbers.item())
    aligned = (*[1] * (len(shape) - numbers.ndim), *numbers.shape)
    return numbers.reshape(-1) if aligned == (shape[0], *[1] * (len(shape) - 1)) else None


def _scaled(call: Call, operand: Operand, factor: float) -> Operand:
    """The operand times alpha, the factor of PyTorch's additions."""
    if factor == 1:
        return operand
    if not isinstance(operand, Value):
        return _constant(operand, lambda numbers: numbers * factor)
    inner = Call(call.draft, call.name, (operand.layout,))
    return arithmetic(inner, "multiply", operand, factor)


def _constant(operand: Operand, change: Callable[[Any], Any]) -> Operand:
    if isinstance(operand, Constant):
        return Constant(change(operand.tensor.double()), operand.name, layout=operand.layout)
    assert not isinstance(operand, Value)
    return float(change(operand))


def add(call: Call, *, self: Operand, other: Operand, alpha: float = 1) -> Value:
    return arithmetic(call, "add", self, _scaled(call, other, alpha))


def subtract(call: Call, *, self: Operand, other: Operand, alpha: float = 1) -> Value:
    return arithmetic(call, "subtract", self, _scaled(call, other, alpha))


def reverse_subtract(call: Call, *, self: Operand, other: Operand, alpha: float = 1) -> Value:
    return subtract(call, self=other, other=self, alpha=alpha)


def binary(function: str) -> Callable[..., Value]:
    """An operator of two tensors, or of a tensor and a number."""

    def translation(call: Call, *, self: Operand, other: Operand) -> Value:
        return arithmetic(call, function, self, other)

    return translation


POWERS = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}


def power(call: Call, *, self: Operand, exponent: Operand) -> Value:
    if isinstance(exponent, (int, float)) and isinstance(self, Value):
        if exponent == 1:
            return self
        if float(exponent) in POWERS:
            return activation(call, POWERS[float(exponent)], self)
        if exponent == 3:
            inner = Call(call.draft, call.name, (self.layout,))
            return arithmetic(call, "multiply", activation(inner, "square", self), self)
    return arithmetic(call, "power", self, exponent)


# Conditions, which a program holds as 1 and 0


def above(call: Call, first: Operand, second: Operand) -> Value:
    """first > second."""
    sign = call.add(ops.Sign(inputs=(arithmetic(call, "subtract", first, second).number,)))
    return arithmetic(call, "add", arithmetic(call, "multiply", sign, 0.5), 0.5)


def opposite(call: Call, condition: Value) -> Value:
    return arithmetic(call, "subtract", 1.0, condition)


def other_than(call: Call, first: Operand, second: Operand) -> Value:
    return arithmetic(call, "add", above(call, first, second), above(call, second, first))


COMPARISONS: dict[str, Callable[[Call, Operand, Operand], Value]] = {
    "gt": above,
    "lt": lambda call, first, second: above(call, second, first),
    "le": lambda call, first, second: opposite(call, above(call, first, second)),
    "ge": lambda call, first, second: opposite(call, above(call, second, first)),
    "ne": other_than,
    "eq": lambda call, first, second: opposite(call, other_than(call, first, second)),
}


def comparison(name: str) -> Callable[..., Value]:
    def translation(call: Call, *, self: Operand, other: Operand) -> Value:
        return COMPARISONS[name](call, self, other)

    return translation


def logical(function: str) -> Callable[..., Value]:
    """and, or: of conditions alone."""

    def translation(call: Call, *, self: Operand, other: Operand) -> Value:
        parts = [part for part in (self, other) if isinstance(part, Value)]
        if not all(part.is_condition for part in parts):
            raise UnsupportedError("logic on the bits of whole numbers")
        return arithmetic(call, function, self, other)

    return translation


def logical_not(call: Call, *, self: Known) -> Value:
    assert isinstance(self, Value)
    return opposite(call, self if self.is_condition else other_than(call, self, 0.0))


def as_condition(call: Call, known: Known) -> Known:
    """Whether a number is another than zero."""
    return known if isinstance(known, Constant) or known.is_condition else other_than(call, known, 0.0)


def hides(call: Call, condition: Known) -> Value:
    """What to add to scores: nothing where the condition holds, and so much less than nothing where it does not."""
    return arithmetic(call, "multiply", arithmetic(call, "subtract", condition, 1.0), LARGE)


def _is_mask(operand: Operand) -> bool:
    """Whether the number is so low that adding it leaves nothing of a score before a softmax."""
    if isinstance(operand, Value):
        return False
    return bool((operand.numbers() <= -1e9).all()) if isinstance(operand, Constant) else operand <= -1e9


def where(call: Call, *, condition: Known, self: Operand, other: Operand) -> Value:
    """One of two by a condition c: a·c + b·(1 - c), or a mask to add."""
    if _is_mask(other) and isinstance(self, Value):
        if isinstance(condition, Value):
            return arithmetic(call, "add", self, hides(call, condition))
        return where(call, condition=_not(condition), self=other, other=self)
    if _is_mask(self) and isinstance(other, Value):
        if isinstance(condition, Value):
            return arithmetic(call, "add", other, arithmetic(call, "multiply", condition, -LARGE))
        mask = Constant(condition.tensor.double() * -LARGE, condition.name, layout=condition.layout)
        return arithmetic(call, "add", other, mask)
    if not isinstance(self, Value) and not isinstance(other, Value):
        tensor = self if isinstance(self, Constant) else other
        step = _constant(tensor, lambda _: _plain(self) - _plain(other))
        return arithmetic(call, "add", arithmetic(call, "multiply", condition, step), other)
    rest = opposite(call, condition) if isinstance(condition, Value) else _not(condition)
    taken, kept = _times(call, self, condition), _times(call, other, rest)
    if taken is None or kept is None:
        found = taken or kept
        assert isinstance(found, Value)
        return found
    return arithmetic(call, "add", kept, taken)


def _not(condition: Constant) -> Constant:
    return Constant(1 - condition.tensor.double(), condition.name, layout=condition.layout)


def _plain(operand: Operand) -> Any:
    assert not isinstance(operand, Value)
    return operand.tensor.double() if isinstance(operand, Constant) else operand


def _times(call: Call, operand: Operand, condition: Known) -> Operand | None:
    """The operand where the condition holds, else 0; ``None`` where that is 0 everywhere."""
    if not isinstance(operand, Value) and not np.any(_constant_numbers(operand)):
        return None
    if isinstance(operand, Value) or isinstance(condition, Value):
        return arithmetic(call, "multiply", operand, condition)
    held = Constant(condition.tensor.double(), condition.name, layout=condition.layout)
    return _constant(held, lambda chosen: chosen * _plain(operand))


def _constant_numbers(operand: Operand) -> Numbers:
    return operand.numbers() if isinstance(operand, Constant) else np.asarray(operand, np.float64)


def masked_fill(call: Call, *, self: Known, mask: Known, value: Operand) -> Value:
    return where(call, condition=mask, self=value, other=self)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "aten.relu.default": relu,
    "aten.gelu.default": gelu,
    "aten.leaky_relu.default": leaky_relu,
    "aten.elu.default": elu,
    "aten.selu.default": selu,
    "aten.celu.default": celu,
    "aten.softplus.default": softplus,
    "aten.log_sigmoid.default": log_sigmoid,
    **dict.fromkeys(("aten.clamp.default", "aten.clamp_min.default", "aten.clamp_max.default"), clamp),
    "aten.hardtanh.default": hardtanh,
    "aten.relu6.default": relu6,
    "aten.prelu.default": prelu,
    "aten.glu.default": glu,
    **{
        f"aten.{name}.default": simple({"neg": "negate"}.get(name, name))
        for name in (
            "silu", "sigmoid", "hardsigmoid", "hardswish", "tanh", "mish", "abs", "exp", "log", "sqrt", "reciprocal",
            "square", "neg", "sin", "cos", "rsqrt", "erf", "floor",
        )
    },
    "signwise.binary_activation.default": binary_activation,
    **dict.fromkeys(("aten.add.Tensor", "aten.add.Scalar"), add),
    **dict.fromkeys(("aten.sub.Tensor", "aten.sub.Scalar"), subtract),
    **dict.fromkeys(("aten.rsub.Tensor", "aten.rsub.Scalar"), reverse_subtract),
    **dict.fromkeys(("aten.mul.Tensor", "aten.mul.Scalar"), binary("multiply")),
    **dict.fromkeys(("aten.maximum.default", "aten.max.other", "aten.fmax.default"), binary("maximum")),
    **dict.fromkeys(("aten.minimum.default", "aten.min.other", "aten.fmin.default"), binary("minimum")),
    **dict.fromkeys(("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar"), power),
    **dict.fromkeys(("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar"), where),
    **dict.fromkeys(("aten.masked_fill.Scalar", "aten.masked_fill.Tensor"), masked_fill),
    **{f"aten.{name}.{form}": comparison(name) for name in COMPARISONS for form in ("Tensor", "Scalar")},
    **{f"aten.{name}": logical("multiply") for name in ("logical_and.default", "__and__.Tensor", "bitwise_and.Tensor")},
    **{f"aten.{name}": logical("maximum") for name in ("logical_or.default", "__or__.Tensor", "bitwise_or.Tensor")},
    **dict.fromkeys(("aten.logical_not.default", "aten.bitwise_not.default"), logical_not),
}  # fmt: skip
