"""Pools, windows, resampling and reductions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from signwise.compiler.builder import LARGE, Call, Known, UnsupportedError, Value, float32
from signwise.compiler.translations.functions import swapped_with_last
from signwise.compiler.translations.layers import as_rows, made_of_rows, pair, rows
from signwise.compiler.translations.moves import joined, picked, reshaped
from signwise.program import operations as ops


def _window(call: Call, kernel: list[int], stride: list[int], padding: list[int], value: int) -> dict[str, Any]:
    """The attributes of a pool; rows and columns added by ceil_mode become padding at the bottom and right."""
    size, steps = pair(list(rows(kernel, 1))), pair(list(rows(stride or kernel, 1)))  # type: ignore[arg-type]
    height, width = pair(list(rows(padding, 0)))  # type: ignore[arg-type]
    made = call.shape[1:] if len(call.shape) == 3 else (1, *call.shape[1:])
    needed = [(count - 1) * step + window for count, step, window in zip(made, steps, size, strict=True)]
    beyond = [
        max(0, extent - side - 2 * around)
        for extent, side, around in zip(needed, call.draft.shape(value)[1:], (height, width), strict=True)
    ]
    sides = (height, width, height + beyond[0], width + beyond[1])
    return {"inputs": (value,), "kernel": size, "stride": steps, "padding": sides}


def max_pool(
    call: Call, *, self: Known, kernel_size: list[int], stride: list[int], padding: list[int], dilation: list[int],
    ceil_mode: bool,
) -> Value:  # fmt: skip
    value = call.image(as_rows(call, self))
    if any(spread != 1 for spread in dilation):
        return _dilated_max_pool(call, value, kernel_size, stride, padding, dilation)
    return made_of_rows(call, call.step(ops.MaxPool(**_window(call, kernel_size, stride, padding, value))))


def _dilated_max_pool(
    call: Call, value: int, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]
) -> Value:
    """The largest of the places of the window, each a part of the image."""
    sizes, steps, around, apart = (
        [filler, *numbers] if len(numbers) == 1 else numbers
        for numbers, filler in ((kernel, 1), (stride or kernel, 1), (padding, 0), (dilation, 1))
    )
    made = call.shape[1:] if len(call.shape) == 3 else (1, call.shape[1])
    largest, *others = windows(
        call, value, made, kernel=sizes, stride=steps, padding=around, dilation=apart, fill=-LARGE
    )
    for other in others:
        largest = call.step(ops.Arithmetic(inputs=(largest, other), function="maximum"))
    return made_of_rows(call, largest)


def windows(
    call: Call, value: int, made: tuple[int, ...], *, kernel: list[int], stride: list[int], padding: list[int],
    dilation: list[int], fill: float = 0.0,
) -> list[int]:  # fmt: skip
    """For each place of a window over an image, row by row, what the windows have there: (channels, *made) each."""
    places, steps, around, spread = pair(kernel), pair(stride), pair(padding), pair(dilation)
    channels, *sides = call.draft.shape(value)
    needed = [
        (count - 1) * step + (size - 1) * apart + 1
        for count, step, size, apart in zip(made, steps, places, spread, strict=True)
    ]
    after = [max(0, extent - side - before) for extent, side, before in zip(needed, sides, around, strict=True)]
    if any(around) or any(after):
        value = call.step(ops.Pad(inputs=(value,), before=(0, *around), after=(0, *after), value=float32(fill)))
    found = []
    for row, column in itertools.product(*map(range, places)):
        starts = (row * spread[0], column * spread[1])
        stops = tuple(start + (count - 1) * step + 1 for start, count, step in zip(starts, made, steps, strict=True))
        found.append(
            call.step(ops.Slice(inputs=(value,), starts=(0, *starts), stops=(channels, *stops), steps=(1, *steps)))
        )
    return found


def im2col(
    call: Call, *, self: Known, kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> Value:
    """nn.Unfold: (channels, height, width) -> (channels · places of the window, windows)."""
    value = call.image(self)
    places, apart = pair(kernel_size), pair(dilation)
    made = tuple(
        (side + 2 * around - gap * (size - 1) - 1) // step + 1
        for side, around, gap, size, step in zip(
            call.draft.shape(value)[1:], pair(padding), apart, places, pair(stride), strict=True
        )
    )
    channels, count = call.draft.shape(value)[0], math.prod(places)
    parts = windows(call, value, made, kernel=kernel_size, stride=stride, padding=padding, dilation=dilation)
    found = [reshaped(call, part, (channels, 1, math.prod(made))) for part in parts]
    return Value(reshaped(call, joined(call, found, 1), (channels * count, math.prod(made))), call.layout)


def col2im(
    call: Call, *, self: Known, output_size: list[int], kernel_size: list[int], dilation: list[int],
    padding: list[int], stride: list[int],
) -> Value:  # fmt: skip
    """nn.Fold: a transposed convolution that writes each number to its place of the window."""
    value, places, steps, around, apart = call.value(self), *map(pair, (kernel_size, stride, padding, dilation))
    count = math.prod(places)
    channels = call.draft.shape(value)[0] // count
    sides = tuple(
        (size + 2 * border - gap * (place - 1) - 1) // step + 1
        for size, border, gap, place, step in zip(output_size, around, apart, places, steps, strict=True)
    )
    ends = tuple(
        (side - 1) * step - 2 * border + gap * (place - 1) + 1
        for side, step, border, gap, place in zip(sides, steps, around, apart, places, strict=True)
    )
    weight = call.draft.tensor("weight", np.tile(np.eye(count).reshape(1, count, *places), (channels, 1, 1, 1)))
    image = reshaped(call, value, (channels * count, *sides))
    return call.add(
        ops.ConvTranspose(
            inputs=(image,), weight=weight, bits=32, out_channels=channels, kernel=places, stride=steps,
            padding=(*around, *around), dilation=apart, groups=channels,
            output_padding=(output_size[0] - ends[0], output_size[1] - ends[1]),
        )
    )  # fmt: skip


def avg_pool(
    call: Call, *, self: Known, kernel_size: list[int], stride: list[int], padding: list[int], ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    window = _window(call, kernel_size, stride, padding, call.image(as_rows(call, self)))
    top, left, bottom, right = window["padding"]
    rounded_up = (top, left) != (bottom, right)
    if divisor_override is None and not (rounded_up and count_include_pad and any(padding)):
        # Pixels added by ceil_mode never count; without other padding, that is padding that does not count.
        counted = count_include_pad and not rounded_up
        return made_of_rows(call, call.step(ops.AvgPool(**window, count_include_pad=counted)))
    # What PyTorch divides by at each place, from what it makes of ones.
    pool = torch.nn.functional.avg_pool2d if len(call.shape) == 3 else torch.nn.functional.avg_pool1d
    how: dict[str, Any] = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    how |= {"divisor_override": divisor_override} if len(call.shape) == 3 else {}
    ones = torch.ones(1, *call.of(self).shape[1:], dtype=torch.float64)
    wanted = pool(ones, kernel_size, stride or kernel_size, padding, **how).numpy().reshape(1, *call.shape[1:])
    pooled = call.step(ops.AvgPool(**window, count_include_pad=True))
    found = ops.AvgPool(**window | {"inputs": (0,)}, count_include_pad=True).evaluate(
        [ones.numpy().reshape(1, 1, *call.draft.shape(window["inputs"][0])[1:])], {}
    )
    factor = call.draft.tensor("factor", wanted.reshape(found.shape[1:]) / found[0])
    scaled = ops.Arithmetic(inputs=(pooled,), function="multiply", operand=factor, shape=found.shape[1:])
    return made_of_rows(call, call.step(scaled))


def pool_3d(function: str) -> Callable[..., Value]:
    """Over a volume: over its images first, then along its depth."""

    def translation(
        call: Call, *, self: Known, kernel_size: list[int], stride: list[int], padding: list[int],
        dilation: list[int] | None = None, ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:  # fmt: skip
        value, layout = call.value(self), call.of(self)
        if layout.batch or layout.merged or len(layout.shape) != 4:
            raise UnsupportedError(
                f"a pool over a volume of shape {list(layout.shape)}, not (channels, depth, height, width)"
            )
        if (
            ceil_mode
            or divisor_override
            or (dilation and max(dilation) > 1)
            or (any(padding) and not count_include_pad)
        ):
            raise UnsupportedError("a pool over a volume with dilation, ceil_mode, or padding that does not count")
        pool = ops.MaxPool if function == "max" else ops.AvgPool
        sizes, steps, sides = ([numbers[0]] * 3 if len(numbers) == 1 else numbers for numbers in (
            kernel_size, stride or kernel_size, padding,
        ))  # fmt: skip
        channels, depth, height, width = layout.shape
        value = reshaped(call, value, (channels * depth, height, width))
        around = (sides[1], sides[2], sides[1], sides[2])
        value = call.step(pool(inputs=(value,), kernel=pair(sizes[1:]), stride=pair(steps[1:]), padding=around))
        _, high, wide = call.draft.shape(value)
        value = reshaped(call, value, (channels, depth, high * wide))
        value = call.step(
            pool(inputs=(value,), kernel=(sizes[0], 1), stride=(steps[0], 1), padding=(sides[0], 0, sides[0], 0))
        )
        return Value(reshaped(call, value, call.shape), call.layout)

    return translation


def adaptive(function: str) -> Callable[..., Value]:
    def translation(call: Call, *, self: Known, output_size: list[int]) -> Value:
        value = call.image(as_rows(call, self))
        size = call.draft.shape(value)[1:]
        made = call.shape[1:] if len(call.shape) == 3 else (1, call.shape[1])
        if any(side % parts for side, parts in zip(size, made, strict=True)) or max(size) > 1024:
            pooled = call.step(ops.AdaptivePool(inputs=(value,), size=pair(list(made)), function=function))
        else:
            kernel = (size[0] // made[0], size[1] // made[1])
            pool = ops.AvgPool if function == "average" else ops.MaxPool
            pooled = call.step(pool(inputs=(value,), kernel=kernel, stride=kernel))
        return made_of_rows(call, pooled)

    return translation


def mean(call: Call, *, self: Known, dim: list[int] | None, keepdim: bool = False, dtype: object = None) -> Value:
    value, axes = call.value(self), call.of(self).axes(dim)
    shape = call.draft.shape(value)
    if axes == (1, 2) and len(shape) == 3 and max(shape[1:]) <= 1024:
        if keepdim:
            return call.add(ops.AvgPool(inputs=(value,), kernel=(shape[1], shape[2]), stride=(shape[1], shape[2])))
        return call.add(ops.GlobalPool(inputs=(value,)))
    return call.add(ops.Reduce(inputs=(value,), function="mean", axes=axes, keep=keepdim))


def reduction(function: str) -> Callable[..., Value]:
    def translation(call: Call, *, self: Known, dim: Any = None, keepdim: bool = False, dtype: object = None) -> Value:
        axes = call.of(self).axes(dim)
        return call.add(ops.Reduce(inputs=(call.value(self),), function=function, axes=axes, keep=keepdim))

    return translation


def argmax(largest: bool) -> Callable[..., Value]:
    def translation(call: Call, *, self: Known, dim: int | None = None, keepdim: bool = False) -> Value:
        if dim is None:
            raise UnsupportedError("the position in the flattened tensor")
        value = call.value(self)
        if not largest:
            value = call.step(ops.Activation(inputs=(value,), function="negate"))
        return call.add(ops.ArgMax(inputs=(value,), axis=call.of(self).axis(dim), keep=keepdim))

    return translation


def extreme(function: str) -> Callable[..., list[Value]]:
    """The largest or smallest numbers along a dimension, and their places."""

    def translation(call: Call, *, self: Known, dim: int, keepdim: bool = False) -> list[Value]:
        numbers = reduction(function)(call, self=self, dim=dim, keepdim=keepdim)
        return [numbers, argmax(function == "max")(call, self=self, dim=dim, keepdim=keepdim)]

    return translation


def resize(mode: str) -> Callable[..., Value]:
    def translation(
        call: Call, *, input: Known, scale_factors: list[float] | None = None, align_corners: bool = False, **_: object
    ) -> Value:
        value = call.image(as_rows(call, input))
        before = call.draft.shape(value)[1:]
        after = pair(list(call.shape[1:] if len(call.shape) == 3 else (1, call.shape[1])))
        factors = [1.0, *scale_factors] if scale_factors and len(scale_factors) == 1 else scale_factors
        ratios = []
        for axis, (side, made) in enumerate(zip(before, after, strict=True)):
            if mode != "nearest" and align_corners:
                ratios.append(float32((side - 1) / (made - 1)) if made > 1 else 0.0)
            else:
                # As PyTorch does: from the factor where one was given, else from the sizes.
                ratios.append(float32(1 / factors[axis]) if factors else float32(side / made))
        named = "bilinear_aligned" if mode != "nearest" and align_corners else mode
        made_image = ops.Resize(inputs=(value,), size=after, mode=named, ratios=(ratios[0], ratios[1]))
        return made_of_rows(call, call.step(made_image))

    return translation


def by_matrices(operator: Any) -> Callable[..., Value]:
    """Resampling that is linear along each dimension: a product with the matrix that PyTorch's own result shows."""

    def translation(call: Call, *, input: Known, **how: Any) -> Value:
        value, layout = call.value(input), call.of(input)
        if layout.batch or layout.merged:
            raise UnsupportedError("resampling of a batch that is not first")
        how = {
            name: [int(part) for part in found] if name == "output_size" and found else found
            for name, found in how.items()
        }
        last = len(layout.shape) - 1
        for axis in range(1, last + 1):
            size, made = layout.shape[axis], call.shape[axis]
            units = torch.eye(size, dtype=torch.float64)
            shape = [size, 1, *(size if place == axis else 1 for place in range(1, last + 1))]
            images = units.reshape(shape).expand(size, 1, *layout.shape[1:]).contiguous()
            found = operator(images, **how)
            along = (slice(None), 0, *(slice(None) if place == axis else 0 for place in range(1, last + 1)))
            matrix, turned = found[along], swapped_with_last(last + 1, axis)
            if axis != last:
                value = call.step(ops.Transpose(inputs=(value,), axes=turned))
            weight = call.draft.tensor("weight", matrix.T.contiguous().numpy())  # (made, size)
            value = call.step(ops.Dense(inputs=(value,), weight=weight, bits=32, in_features=size, out_features=made))
            if axis != last:
                value = call.step(ops.Transpose(inputs=(value,), axes=turned))
        return Value(value, call.layout)

    return translation


def by_places(operator: Any) -> Callable[..., Value]:
    """The pixel whose middle is nearest, as PyTorch's own result on the numbers of the pixels shows."""

    def translation(call: Call, *, input: Known, **how: Any) -> Value:
        value, shape = call.value(input), call.of(input).shape
        for axis in range(1, len(shape)):
            numbers = torch.arange(shape[axis], dtype=torch.float64)
            row = [1, 1, *(-1 if place == axis else 1 for place in range(1, len(shape)))]
            found = operator(numbers.reshape(row).expand(1, 1, *shape[1:]).contiguous(), **how)
            along = (0, 0, *(slice(None) if place == axis else 0 for place in range(1, len(shape))))
            value = picked(call, value, axis, [int(place) for place in found[along]])
        return Value(value, call.layout)

    return translation


_aten = torch.ops.aten
POOLS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("aten.max_pool2d.default", "aten.max_pool1d.default"), max_pool),
    **dict.fromkeys(("aten.avg_pool2d.default", "aten.avg_pool1d.default"), avg_pool),
    **dict.fromkeys(("aten.adaptive_avg_pool2d.default", "aten.adaptive_avg_pool1d.default"), adaptive("average")),
    **dict.fromkeys(("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool1d.default"), adaptive("max")),
    "aten.mean.dim": mean,
    "aten.sum.dim_IntList": reduction("sum"),
    "aten.amax.default": reduction("max"),
    "aten.amin.default": reduction("min"),
    "aten.max.dim": extreme("max"),
    "aten.min.dim": extreme("min"),
    "aten.argmax.default": argmax(largest=True),
    "aten.argmin.default": argmax(largest=False),
    "aten.im2col.default": im2col,
    "aten.col2im.default": col2im,
    "aten.max_pool3d.default": pool_3d("max"),
    "aten.avg_pool3d.default": pool_3d("average"),
    "aten.upsample_bicubic2d.vec": by_matrices(_aten.upsample_bicubic2d.vec),
    "aten._upsample_bilinear2d_aa.vec": by_matrices(_aten._upsample_bilinear2d_aa.vec),
    "aten._upsample_bicubic2d_aa.vec": by_matrices(_aten._upsample_bicubic2d_aa.vec),
    "aten.upsample_trilinear3d.vec": by_matrices(_aten.upsample_trilinear3d.vec),
    "aten._upsample_nearest_exact1d.vec": by_places(_aten._upsample_nearest_exact1d.vec),
    "aten._upsample_nearest_exact2d.vec": by_places(_aten._upsample_nearest_exact2d.vec),
    "aten.upsample_nearest3d.vec": by_places(_aten.upsample_nearest3d.vec),
    **dict.fromkeys(("aten.upsample_nearest2d.vec", "aten.upsample_nearest1d.vec"), resize("nearest")),
    **dict.fromkeys(("aten.upsample_bilinear2d.vec", "aten.upsample_linear1d.vec"), resize("bilinear")),
}
