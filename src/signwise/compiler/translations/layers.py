"""Layers with weights, and batch norm, which becomes part of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from signwise.compiler.builder import Call, Constant, Known, UnsupportedError, Value, float32
from signwise.packing.operators import unpack_signs
from signwise.program import operations as ops


def pair(numbers: list[int]) -> tuple[int, int]:
    return numbers[0], numbers[-1]


def as_rows(call: Call, known: Known) -> Known:
    """A sequence (channels, length) as an image of one row (channels, 1, length)."""
    number = call.value(known)
    channels, *sides = call.draft.shape(number)
    if len(sides) == 2:
        return known
    layout = call.of(known)
    if len(sides) != 1 or layout.batch or layout.merged:
        raise UnsupportedError(f"a one-dimensional operator on examples of shape {[channels, *sides]}")
    value = call.step(ops.Reshape(inputs=(number,), shape=(channels, 1, sides[0])))
    return Value(value, replace(layout, sizes=(1, channels, 1, sides[0])))


def made_of_rows(call: Call, made: int) -> Value:
    """The result in PyTorch's shape, without the dimension of :func:`as_rows`."""
    if call.draft.shape(made) == call.shape:
        return Value(made, call.layout)
    return call.add(ops.Reshape(inputs=(made,), shape=call.shape))


def rows(numbers: list[int] | str, filler: int) -> list[int] | str:
    """Numbers for one dimension as numbers for two."""
    return [filler, *numbers] if not isinstance(numbers, str) and len(numbers) == 1 else numbers


def convolution(
    call: Call, *, input: Known, weight: Known, bias: Known | None, stride: list[int], padding: list[int] | str,
    dilation: list[int], groups: int,
) -> Value:  # fmt: skip
    constant = call.constant(weight)
    if constant.tensor.dim() == 3:
        constant = replace(constant, tensor=constant.tensor.unsqueeze(2))  # (out, in, k) -> (out, in, 1, k)
    value = call.image(as_rows(call, input))
    out_channels, _, *kernel = constant.tensor.shape
    spread = pair(list(rows(dilation, 1)))  # type: ignore[arg-type]
    made = call.step(
        ops.Conv(
            inputs=(value,),
            out_channels=out_channels,
            kernel=pair(kernel),
            stride=pair(list(rows(stride, 1))),  # type: ignore[arg-type]
            padding=_sides(rows(padding, 0), kernel, spread),
            dilation=spread,
            groups=groups,
            **call.layer_tensors(constant, bias),
        )
    )
    return made_of_rows(call, made)


def _sides(padding: list[int] | str, kernel: list[int], dilation: tuple[int, int]) -> ops.Padding:
    if padding == "same":
        # As in PyTorch, an odd number of zeros leaves the extra one at the bottom and right.
        height, width = (spread * (size - 1) for spread, size in zip(dilation, kernel, strict=True))
        return height // 2, width // 2, height - height // 2, width - width // 2
    if not isinstance(padding, str) and len(padding) == 4:
        top, left, bottom, right = padding
        return top, left, bottom, right
    height, width = (0, 0) if isinstance(padding, str) else pair(padding)
    return height, width, height, width


def convolution_3d(
    call: Call, *, input: Known, weight: Known, bias: Known | None, stride: list[int], padding: list[int] | str,
    dilation: list[int], groups: int,
) -> Value:  # fmt: skip
    """Over volumes: a convolution over the images that each place of the result reads, their channels in a row."""
    value, constant, layout = call.value(input), call.constant(weight), call.of(input)
    if groups != 1 or layout.batch or layout.merged or len(layout.shape) != 4:
        raise UnsupportedError(
            "a convolution over volumes with groups, or not of shape (channels, depth, height, width)"
        )
    filters, channels, depth, *kernel = constant.tensor.shape
    # (out, in, kd, kh, kw) -> (out, kd · in, kh, kw)
    flat = constant.tensor.transpose(1, 2).reshape(filters, depth * channels, *kernel).contiguous()
    tensors = call.layer_tensors(replace(constant, tensor=flat), bias)
    sides = _sides(padding if isinstance(padding, str) else padding[-2:], kernel, pair(dilation[-2:]))
    reach = dilation[0] * (depth - 1)
    before = padding[0] if not isinstance(padding, str) else reach // 2 if padding == "same" else 0
    after = before if padding != "same" else reach - before
    if before or after:
        value = call.step(ops.Pad(inputs=(value,), before=(0, before, 0, 0), after=(0, after, 0, 0)))
    _, deep, height, width = call.draft.shape(value)
    images = []
    for start in range(0, deep - reach, stride[0]):
        stops = (channels, start + reach + 1, height, width)
        part = call.step(ops.Slice(inputs=(value,), starts=(0, start, 0, 0), stops=stops, steps=(1, dilation[0], 1, 1)))
        part = call.step(ops.Transpose(inputs=(part,), axes=(1, 0, 2, 3)))
        part = call.step(ops.Reshape(inputs=(part,), shape=(depth * channels, height, width)))
        part = call.step(
            ops.Conv(
                inputs=(part,), out_channels=filters, kernel=pair(kernel), stride=pair(stride[-2:]), padding=sides,
                dilation=pair(dilation[-2:]), **tensors,
            )
        )  # fmt: skip
        high, wide = call.draft.shape(part)[1:]
        images.append(call.step(ops.Reshape(inputs=(part,), shape=(filters, 1, high, wide))))
    if len(images) > ops.Concat.arity[1]:
        raise UnsupportedError(
            f"a convolution over volumes with {len(images)} images in the result; at most 64 compile"
        )
    return Value(images[0] if len(images) == 1 else call.step(ops.Concat(inputs=tuple(images), axis=1)), call.layout)


def transposed_convolution(
    call: Call, *, input: Known, weight: Known, bias: Known | None, stride: list[int], padding: list[int],
    output_padding: list[int], groups: int, dilation: list[int],
) -> Value:  # fmt: skip
    constant = call.constant(weight)
    tensor = constant.tensor if constant.tensor.dim() == 4 else constant.tensor.unsqueeze(2)
    channels, filters, *kernel = tensor.shape
    # (in, out / groups, kh, kw) -> (out, in / groups, kh, kw): a row of weights per output channel
    tensor = tensor.reshape(groups, channels // groups, filters, *kernel).transpose(1, 2)
    scale = constant.scale
    if scale is not None and scale.numel() != groups * filters:
        raise UnsupportedError(f"a transposed convolution with {scale.numel()} scales for {groups * filters} channels")
    constant = replace(constant, tensor=tensor.reshape(groups * filters, channels // groups, *kernel).contiguous())
    height, width = pair(list(rows(padding, 0)))  # type: ignore[arg-type]
    made = call.step(
        ops.ConvTranspose(
            inputs=(call.image(as_rows(call, input)),),
            out_channels=groups * filters,
            kernel=pair(kernel),
            stride=pair(list(rows(stride, 1))),  # type: ignore[arg-type]
            padding=(height, width, height, width),
            output_padding=pair(list(rows(output_padding, 0))),  # type: ignore[arg-type]
            dilation=pair(list(rows(dilation, 1))),  # type: ignore[arg-type]
            groups=groups,
            **call.layer_tensors(constant, bias),
        )
    )
    return made_of_rows(call, made)


def linear(call: Call, *, input: Known, weight: Known, bias: Known | None) -> Value:
    value, constant = call.value(input), call.constant(weight)
    out_features, in_features = constant.tensor.shape
    scale = constant.scale
    blocks = 1 if scale is None or scale.dim() == 1 else scale.shape[1]
    if scale is not None and blocks == 1:
        constant = replace(constant, scale=scale.flatten())
    tensors = call.layer_tensors(constant, bias)
    if blocks > 1:
        tensors |= {"scale": None, "block_scale": tensors["scale"], "blocks": blocks}
    return call.add(ops.Dense(inputs=(value,), out_features=out_features, in_features=in_features, **tensors))


def addmm(call: Call, *, self: Known, mat1: Known, mat2: Known, beta: float = 1, alpha: float = 1) -> Value:
    """x @ W + b with W as (in, out): the Conv1D of GPT-2."""
    weight = call.constant(mat2)
    if (beta, alpha) != (1, 1):
        raise UnsupportedError("a sum with factors")
    turned = replace(weight, tensor=weight.tensor.T.contiguous(), name=f"{weight.name} turned")
    return linear(call, input=mat1, weight=turned, bias=self)


def packed_linear(call: Call, *, input: Known, bits: Known, scale: Known | None, bias: Known | None) -> Value:
    """A layer of ``signwise.pack_``."""
    count, terms = call.constant(bits).tensor.shape[0], call.draft.shape(call.value(input))[-1]
    return linear(call, input=input, weight=_unpacked(call, bits, scale, (count, terms)), bias=bias)


def packed_conv2d(
    call: Call, *, input: Known, bits: Known, scale: Known | None, bias: Known | None, kernel: list[int],
    padding: list[int], groups: int, **geometry: list[int],
) -> Value:  # fmt: skip
    """A layer of ``signwise.pack_``; its padding is top, left, bottom, right."""
    value = call.image(input)
    shape = (call.constant(bits).tensor.shape[0], call.draft.shape(value)[0] // groups, *kernel)
    weight = _unpacked(call, bits, scale, shape)
    return convolution(call, input=input, weight=weight, bias=bias, padding=padding, groups=groups, **geometry)


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
    if call.of(input).axis(1) != 0:
        raise UnsupportedError("a batch norm whose channels do not follow the batch")
    return call.affine(call.value(input), scale, offset - mean * scale)


def normalize(
    call: Call, known: Known, axes: tuple[int, ...], eps: float, weight: Known | None, bias: Known | None, *,
    centered: bool = True, groups: int = 1, per_channel: bool = False,
) -> Value:  # fmt: skip
    names = [
        None if part is None else call.draft.tensor(name, call.constant(part).numbers())
        for name, part in (("scale", weight), ("bias", bias))
    ]
    return call.add(
        ops.Normalize(
            inputs=(call.value(known),), axes=axes, epsilon=float32(eps), centered=centered, groups=groups,
            scale=names[0], bias=names[1], per_channel=per_channel,
        )
    )  # fmt: skip


def layer_norm(
    call: Call, *, input: Known, normalized_shape: list[int], weight: Known | None, bias: Known | None, eps: float,
    **_: object,
) -> Value:  # fmt: skip
    axes = call.of(input).axes(list(range(-len(normalized_shape), 0)))
    return normalize(call, input, axes, eps, weight, bias)


def rms_norm(
    call: Call, *, input: Known, normalized_shape: list[int], weight: Known | None, eps: float | None
) -> Value:
    axes = call.of(input).axes(list(range(-len(normalized_shape), 0)))
    return normalize(call, input, axes, 2.0**-23 if eps is None else eps, weight, None, centered=False)


def group_norm(
    call: Call, *, input: Known, num_groups: int, weight: Known | None, bias: Known | None, eps: float, **_: object
) -> Value:
    axes = tuple(range(len(call.shape)))
    _first_channels(call, input)
    return normalize(call, input, axes, eps, weight, bias, groups=num_groups, per_channel=True)


def instance_norm(
    call: Call, *, input: Known, weight: Known | None, bias: Known | None, running_mean: Known | None,
    running_var: Known | None, use_input_stats: bool, eps: float, **_: object,
) -> Value:  # fmt: skip
    _first_channels(call, input)
    if not use_input_stats:
        assert running_mean is not None and running_var is not None
        return batch_norm(
            call, input=input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var, eps=eps
        )
    return normalize(call, input, tuple(range(1, len(call.shape))), eps, weight, bias, per_channel=True)


def _first_channels(call: Call, known: Known) -> None:
    layout = call.of(known)
    if layout.batch or layout.merged or math.prod(layout.shape) == 0:
        raise UnsupportedError("a norm whose channels do not follow the batch")


LAYERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(
        ("aten.conv2d.default", "aten.conv2d.padding", "aten.conv1d.default", "aten.conv1d.padding"), convolution
    ),
    **dict.fromkeys(("aten.conv3d.default", "aten.conv3d.padding"), convolution_3d),
    **dict.fromkeys(("aten.conv_transpose2d.input", "aten.conv_transpose1d.default"), transposed_convolution),
    "aten.linear.default": linear,
    "aten.addmm.default": addmm,
    "signwise.packed_linear.default": packed_linear,
    "signwise.packed_conv2d.default": packed_conv2d,
    "aten._native_batch_norm_legit_no_training.default": batch_norm,
    "aten.layer_norm.default": layer_norm,
    "aten.rms_norm.default": rms_norm,
    "aten.group_norm.default": group_norm,
    "aten.instance_norm.default": instance_norm,
}
