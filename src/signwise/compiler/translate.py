"""PyTorch's operators as operations of a program: one function each, and the table that assigns them.

A translation gets the operator's arguments by the names of PyTorch's schema, with tensors replaced by what the compiler
knows of them. It refuses arguments that a program cannot express; operators outside the table are refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from signwise.compiler.builder import Call, Constant, Known, Numbers, Padded, UnsupportedError, Value
from signwise.packing.operators import unpack_signs
from signwise.program import operations as ops

Translation = Callable[..., Known]


def _pair(numbers: list[int]) -> tuple[int, int]:
    return numbers[0], numbers[-1]


def conv2d(
    call: Call, *, input: Known, weight: Known, bias: Known | None, stride: list[int], padding: list[int] | str,
    dilation: list[int], groups: int,
) -> Value:  # fmt: skip
    constant = call.constant(weight)
    out_channels, _, *kernel = constant.tensor.shape
    top, left, bottom, right = _sides(padding, kernel, _pair(dilation))
    if isinstance(input, Padded):
        before, value = input.padding, input.number
        top, left, bottom, right = top + before[0], left + before[1], bottom + before[2], right + before[3]
    else:
        value = call.value(input)
    return call.add(
        ops.Conv(
            inputs=(value,),
            out_channels=out_channels,
            kernel=_pair(kernel),
            stride=_pair(stride),
            padding=(top, left, bottom, right),
            dilation=_pair(dilation),
            groups=groups,
            **call.layer_tensors(constant, bias),
        )
    )


def _sides(padding: list[int] | str, kernel: list[int], dilation: tuple[int, int]) -> ops.Padding:
    if padding == "same":
        # As in PyTorch, an odd number of zeros leaves the extra one at the bottom and right.
        height, width = (spread * (size - 1) for spread, size in zip(dilation, kernel, strict=True))
        return height // 2, width // 2, height - height // 2, width - width // 2
    height, width = (0, 0) if isinstance(padding, str) else _pair(padding)
    return height, width, height, width


def linear(call: Call, *, input: Known, weight: Known, bias: Known | None) -> Value:
    value, constant = call.value(input), call.constant(weight)
    if len(call.shape) != 1:
        raise UnsupportedError("a linear layer on several vectors per example")
    out_features, in_features = constant.tensor.shape
    tensors = call.layer_tensors(constant, bias)
    return call.add(ops.Dense(inputs=(value,), out_features=out_features, in_features=in_features, **tensors))


def packed_linear(call: Call, *, input: Known, bits: Known, scale: Known | None, bias: Known | None) -> Value:
    """A layer of ``signwise.pack_``."""
    rows, terms = call.constant(bits).tensor.shape[0], call.draft.shape(call.value(input))[-1]
    return linear(call, input=input, weight=_unpacked(call, bits, scale, (rows, terms)), bias=bias)


def packed_conv2d(
    call: Call, *, input: Known, bits: Known, scale: Known | None, bias: Known | None, kernel: list[int],
    padding: list[int], groups: int, **geometry: list[int],
) -> Value:  # fmt: skip
    """A layer of ``signwise.pack_``; its padding is top, left, bottom, right."""
    value = call.value(input)
    shape = (call.constant(bits).tensor.shape[0], call.draft.shape(value)[0] // groups, *kernel)
    top, left, bottom, right = padding
    weight = _unpacked(call, bits, scale, shape)
    padded = Padded(value, (top, left, bottom, right))
    return conv2d(call, input=padded, weight=weight, bias=bias, padding="valid", groups=groups, **geometry)


def _unpacked(call: Call, bits: Known, scale: Known | None, shape: tuple[int, ...]) -> Constant:
    packed = call.constant(bits)
    return Constant(
        unpack_signs(packed.tensor, shape), packed.name, True, None if scale is None else call.constant(scale).tensor
    )


def batch_norm(
    call: Call, *, input: Known, weight: Known | None, bias: Known | None, running_mean: Known, running_var: Known,
    eps: float, **_: object,
) -> Value:  # fmt: skip
    mean, variance = call.constant(running_mean).numbers(), call.constant(running_var).numbers()
    scale = 1 / np.sqrt(variance + eps)
    if weight is not None:
        scale = scale * call.constant(weight).numbers()
    offset = np.zeros_like(mean) if bias is None else call.constant(bias).numbers()
    return call.affine(call.value(input), scale, offset - mean * scale)


def relu(call: Call, *, self: Known) -> Value:
    return call.add(ops.Relu(inputs=(call.value(self),)))


def clamp(call: Call, *, self: Known, min: float | None, max: float | None = None) -> Value:
    if min != 0 or max is not None:
        raise UnsupportedError(f"a clamp to [{min}, {max}]; only clamp(min=0), a ReLU, is an operation")
    return relu(call, self=self)


def _window(call: Call, kernel: list[int], stride: list[int], padding: list[int], value: int) -> dict[str, Any]:
    """The attributes of a pool; rows and columns added by ceil_mode become padding at the bottom and right."""
    size, steps = _pair(kernel), _pair(stride or kernel)
    height, width = _pair(padding)
    needed = [(made - 1) * step + window for made, step, window in zip(call.shape[1:], steps, size, strict=True)]
    beyond = [
        max(0, extent - side - 2 * around)
        for extent, side, around in zip(needed, call.draft.shape(value)[1:], (height, width), strict=True)
    ]
    sides = (height, width, height + beyond[0], width + beyond[1])
    return {"inputs": (value,), "kernel": size, "stride": steps, "padding": sides}


def max_pool2d(
    call: Call, *, self: Known, kernel_size: list[int], stride: list[int], padding: list[int], dilation: list[int],
    ceil_mode: bool,
) -> Value:  # fmt: skip
    if any(spread != 1 for spread in dilation):
        raise UnsupportedError("a dilated pool")
    return call.add(ops.MaxPool(**_window(call, kernel_size, stride, padding, call.value(self))))


def avg_pool2d(
    call: Call, *, self: Known, kernel_size: list[int], stride: list[int], padding: list[int], ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    if divisor_override is not None:
        raise UnsupportedError("an average pool with divisor_override")
    window = _window(call, kernel_size, stride, padding, call.value(self))
    top, left, bottom, right = window["padding"]
    rounded_up = (top, left) != (bottom, right)
    if rounded_up and count_include_pad and any(padding):
        raise UnsupportedError("an average pool with padding, count_include_pad and ceil_mode")
    # Pixels added by ceil_mode never count; without other padding, that is padding that does not count.
    return call.add(ops.AvgPool(**window, count_include_pad=count_include_pad and not rounded_up))


def adaptive_avg_pool2d(call: Call, *, self: Known, output_size: list[int]) -> Value:
    value = call.value(self)
    size = call.draft.shape(value)[1:]
    made = call.shape[1:]
    if any(side % parts for side, parts in zip(size, made, strict=True)):
        raise UnsupportedError(
            f"an adaptive pool from {list(size)} to {list(made)} pixels, whose windows differ in size"
        )
    kernel = (size[0] // made[0], size[1] // made[1])
    return call.add(ops.AvgPool(inputs=(value,), kernel=kernel, stride=kernel))


def mean(call: Call, *, self: Known, dim: list[int] | None, keepdim: bool, dtype: object = None) -> Value:
    value = call.value(self)
    shape = call.draft.shape(value)
    if dim is None or sorted(axis % (len(shape) + 1) for axis in dim) != [2, 3] or len(shape) != 3:
        raise UnsupportedError(f"a mean over dimensions {dim}, not over height and width")
    if keepdim:
        return call.add(ops.AvgPool(inputs=(value,), kernel=(shape[1], shape[2]), stride=(shape[1], shape[2])))
    return call.add(ops.GlobalPool(inputs=(value,)))


def pad(call: Call, *, self: Known, pad: list[int], mode: str = "constant", value: float | None = 0) -> Known:
    if mode != "constant" or value not in (None, 0):
        raise UnsupportedError(f"padding in mode {mode!r} with {value}, not with zeros")
    sides = [0] * 8
    sides[: len(pad)] = pad
    left, right, top, bottom, before, after, *batch = sides
    if isinstance(self, Padded):
        number, around = self.number, self.padding
    else:
        number, around = call.value(self), (0, 0, 0, 0)
    if len(call.draft.shape(number)) == 1:
        left, right, top, bottom, before, after, batch = 0, 0, 0, 0, left, right, [top, bottom, before, after, *batch]
    if min(sides) < 0 or any(batch):
        raise UnsupportedError(f"padding by {pad}, which cuts off a part or adds examples")
    if before or after:
        if any(around):
            raise UnsupportedError("channels of zeros beside a padded image")
        number = call.add(ops.PadChannels(inputs=(number,), before=before, after=after)).number
    if not any((top, left, bottom, right, *around)):
        return Value(number)
    return Padded(number, (around[0] + top, around[1] + left, around[2] + bottom, around[3] + right))


def reshape(call: Call, *, self: Known, **_: object) -> Known:
    """Views of all kinds: an example keeps its shape or becomes a vector, with or without dimensions of one."""
    value = call.value(self)
    shape = call.draft.shape(value)
    is_vector = max(call.shape, default=1) == math.prod(shape) == math.prod(call.shape)
    if call.shape == shape or (is_vector and len(shape) == 1):
        return self
    if not is_vector:
        raise UnsupportedError(f"a change of shape from {list(shape)} to {list(call.shape)} per example")
    return call.add(ops.Flatten(inputs=(value,)))


def same(call: Call, *, self: Known | None = None, input: Known | None = None, **_: object) -> Known:
    """Operators that change nothing in evaluation, or only the storage of a tensor."""
    known = input if self is None else self
    assert known is not None
    return known


def whole_slice(call: Call, *, self: Known, **_: object) -> Known:
    if call.shape != call.draft.shape(call.value(self)):
        raise UnsupportedError("a part of a tensor")
    return self


def concatenate(call: Call, *, tensors: list[Known], dim: int = 0) -> Value:
    values = tuple(call.value(known) for known in tensors)
    if dim % (len(call.shape) + 1) != 1:
        raise UnsupportedError(f"joining along dimension {dim}, not along the channels")
    return Value(values[0]) if len(values) == 1 else call.add(ops.Concat(inputs=values))


def softmax(call: Call, *, self: Known, dim: int, **_: object) -> Value:
    value = call.value(self)
    if len(call.shape) != 1 or dim % 2 != 1:
        raise UnsupportedError(f"a softmax over dimension {dim} of examples of shape {list(call.shape)}")
    return call.add(ops.Softmax(inputs=(value,)))


# Sums and products: of two values, or of a value and constants, which make a per-channel affine map.


def _per_channel(call: Call, value: int, operand: Known | float) -> Numbers:
    """A number or constant tensor as one number per channel, if it is constant over each channel."""
    shape = call.draft.shape(value)
    numbers = operand.numbers() if isinstance(operand, Constant) else np.asarray(operand, dtype=np.float64)
    if numbers.size == 1:
        return np.full(shape[0], numbers.item())
    aligned = (*[1] * (len(shape) + 1 - numbers.ndim), *numbers.shape)
    if call.shape != shape or aligned != (1, shape[0], *[1] * (len(shape) - 1)):
        raise UnsupportedError(f"a constant of shape {list(numbers.shape)}, which is not one number per channel")
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


TRANSLATIONS: dict[str, Translation] = {
    **dict.fromkeys(("aten.conv2d.default", "aten.conv2d.padding"), conv2d),
    "aten.linear.default": linear,
    "signwise.packed_linear.default": packed_linear,
    "signwise.packed_conv2d.default": packed_conv2d,
    "aten._native_batch_norm_legit_no_training.default": batch_norm,
    "aten.relu.default": relu,
    **dict.fromkeys(("aten.clamp.default", "aten.clamp_min.default"), clamp),
    **dict.fromkeys(("aten.add.Tensor", "aten.add.Scalar"), add),
    **dict.fromkeys(("aten.sub.Tensor", "aten.sub.Scalar"), subtract),
    **dict.fromkeys(("aten.rsub.Tensor", "aten.rsub.Scalar"), reverse_subtract),
    **dict.fromkeys(("aten.mul.Tensor", "aten.mul.Scalar"), multiply),
    **dict.fromkeys(("aten.div.Tensor", "aten.div.Scalar"), divide),
    "aten.max_pool2d.default": max_pool2d,
    "aten.avg_pool2d.default": avg_pool2d,
    "aten.adaptive_avg_pool2d.default": adaptive_avg_pool2d,
    "aten.mean.dim": mean,
    **dict.fromkeys(("aten.pad.default", "aten.constant_pad_nd.default"), pad),
    **dict.fromkeys(
        (
            "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.flatten.using_ints",
            "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default",
        ),
        reshape,
    ),
    **dict.fromkeys(
        (
            "aten.clone.default", "aten.contiguous.default", "aten.alias.default", "aten.detach.default",
            "aten._to_copy.default", "aten.to.dtype", "aten.to.device", "aten.to.dtype_layout",
            "aten.dropout.default", "aten.feature_dropout.default", "aten.lift_fresh_copy.default",
        ),
        same,
    ),
    "aten.slice.Tensor": whole_slice,
    "aten.cat.default": concatenate,
    **dict.fromkeys(("aten.softmax.int", "aten._softmax.default"), softmax),
}  # fmt: skip
