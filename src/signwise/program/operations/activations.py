"""Functions of each number by itself: the usual activations, PReLU, and the sign of binary activations."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from signwise.errors import FormatError
from signwise.program.operations.base import (
    Array,
    NativeField,
    Operation,
    Quantized,
    Shape,
    Tensors,
    TensorSpec,
    check_choice,
    check_number,
    check_tensor_name,
    need_channels,
    per_channel,
)

_erf: Callable[[Any], npt.NDArray[Any]] = np.vectorize(math.erf, otypes=[np.float64])  # numpy has none


def _sigmoid(x: Array) -> Array:
    # exp of negative numbers alone: nothing overflows.
    power = np.exp(-np.abs(x))
    made: Array = np.where(x >= 0, 1, power) / (1 + power)
    return made


def _hardsigmoid(x: Array) -> Array:
    return np.clip(x / 6 + 0.5, 0, 1)


def _softplus(x: Array, beta: float = 1, threshold: float = 20) -> Array:
    smooth = np.logaddexp(0, beta * x) / beta
    return np.where(beta * x > threshold, x, smooth)


def _elu(x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    return scale * np.where(x > 0, x, alpha * np.expm1(input_scale * np.minimum(x, 0)))


def _gelu_tanh(x: Array) -> Array:
    made: Array = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return made


# By name: the function, and how many numbers it takes beside x. The order is the numbering of the C interface.
FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "clip": (np.clip, 2),
    "leaky_relu": (lambda x, slope: np.where(x > 0, x, slope * x), 1),
    "elu": (_elu, 3),
    "silu": (lambda x: x * _sigmoid(x), 0),
    "gelu": (lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), 0),
    "gelu_tanh": (_gelu_tanh, 0),
    "sigmoid": (_sigmoid, 0),
    "hardsigmoid": (_hardsigmoid, 0),
    "hardswish": (lambda x: x * _hardsigmoid(x), 0),
    "tanh": (np.tanh, 0),
    "softplus": (_softplus, 2),
    "mish": (lambda x: x * np.tanh(_softplus(x)), 0),
    "abs": (np.abs, 0),
    "exp": (np.exp, 0),
    "log": (np.log, 0),
    "sqrt": (np.sqrt, 0),
    "reciprocal": (lambda x: 1 / x, 0),
    "square": (np.square, 0),
    "negate": (np.negative, 0),
    "sin": (np.sin, 0),
    "cos": (np.cos, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0),
    "erf": (_erf, 0),
    "floor": (np.floor, 0),
}


@dataclass(frozen=True, kw_only=True)
class Activation(Operation):
    """One function of every number.

    Args:
        function: a name from ``FUNCTIONS``.
        numbers: what the function takes beside x: ``clip`` low and high; ``leaky_relu`` the slope; ``elu`` alpha, scale
            and input scale, scale * (x if x > 0 else alpha * (exp(input scale * x) - 1)); ``softplus`` beta and
            threshold.

    Example:
        >>> relu6 = Activation(inputs=(0,), function="clip", numbers=(0.0, 6.0))
        >>> relu6.evaluate([np.array([[-1.0, 3.0, 9.0]])], {})
        array([[0., 3., 6.]])
    """

    kind: ClassVar[str] = "activation"
    number: ClassVar[int] = 12
    number_attributes: ClassVar[tuple[str, ...]] = ("numbers",)

    function: str
    numbers: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("function", self.function, tuple(FUNCTIONS))
        count = FUNCTIONS[self.function][1]
        if not isinstance(self.numbers, tuple) or len(self.numbers) != count:
            raise FormatError(f"{self.function} takes {count} numbers, got {reprlib.repr(self.numbers)}")
        for value in self.numbers:
            check_number("numbers", value)
        if self.function == "clip" and self.numbers[0] > self.numbers[1]:
            raise FormatError(f"clip needs its lower limit first, got {list(self.numbers)}")
        if self.function == "softplus" and self.numbers[0] <= 0:
            raise FormatError(f"softplus needs a positive beta, got {self.numbers[0]}")

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        made: Array = FUNCTIONS[self.function][0](inputs[0], *self.numbers)
        return made.astype(inputs[0].dtype, copy=False)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"function": list(FUNCTIONS).index(self.function), "numbers": self.numbers}


@dataclass(frozen=True, kw_only=True)
class PRelu(Operation):
    """x where it is positive, else slope * x, with one slope per channel."""

    kind: ClassVar[str] = "prelu"
    number: ClassVar[int] = 13
    tensor_attributes: ClassVar[tuple[str, ...]] = ("slope",)

    slope: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tensor_name("slope", self.slope)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return need_channels(inputs[0])

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        yield TensorSpec("slope", self.slope, np.float32, inputs[0][:1])

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        return np.where(inputs[0] > 0, inputs[0], per_channel(tensors[self.slope], inputs[0]) * inputs[0])

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {"table": tensors[self.slope]}


@dataclass(frozen=True, kw_only=True)
class Sign(Operation):
    """+1 where x is above the threshold of its channel (0 without one), else -1: a binary activation."""

    kind: ClassVar[str] = "sign"
    number: ClassVar[int] = 30
    tensor_attributes: ClassVar[tuple[str, ...]] = ("threshold",)

    threshold: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tensor_name("threshold", self.threshold, optional=True)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        return inputs[0] if self.threshold is None else need_channels(inputs[0])

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        if self.threshold is not None:
            yield TensorSpec("threshold", self.threshold, np.float32, inputs[0][:1])

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        threshold = 0.0 if self.threshold is None else per_channel(tensors[self.threshold], inputs[0])
        return np.where(inputs[0] > threshold, 1, -1).astype(inputs[0].dtype)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {} if self.threshold is None else {"table": tensors[self.threshold]}

    @property
    def exact_type(self) -> Quantized:
        """The integers that hold -1 and +1."""
        return Quantized(type="int8", scale=1.0)
