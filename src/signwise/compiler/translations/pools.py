"""Pools, resampling and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from signwise.compiler.builder import Call, Known, UnsupportedError, Value, float32
from signwise.compiler.translations.layers import as_rows, made_of_rows, pair, rows
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
    if any(spread != 1 for spread in dilation):
        raise UnsupportedError("a dilated pool")
    value = call.image(as_rows(call, self))
    return made_of_rows(call, call.step(ops.MaxPool(**_window(call, kernel_size, stride, padding, value))))


def avg_pool(
    call: Call, *, self: Known, kernel_size: list[int], stride: list[int], padding: list[int], ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    if divisor_override is not None:
        raise UnsupportedError("an average pool with divisor_override")
    window = _window(call, kernel_size, stride, padding, call.image(as_rows(call, self)))
    top, left, bottom, right = window["padding"]
    rounded_up = (top, left) != (bottom, right)
    if rounded_up and count_include_pad and any(padding):
        raise UnsupportedError("an average pool with padding, count_include_pad and ceil_mode")
    # Pixels added by ceil_mode never count; without other padding, that is padding that does not count.
    counted = count_include_pad and not rounded_up
    return made_of_rows(call, call.step(ops.AvgPool(**window, count_include_pad=counted)))


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


def argmax(call: Call, *, self: Known, dim: int | None = None, keepdim: bool = False) -> Value:
    if dim is None:
        raise UnsupportedError("the position in the flattened tensor")
    return call.add(ops.ArgMax(inputs=(call.value(self),), axis=call.of(self).axis(dim), keep=keepdim))


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


POOLS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("aten.max_pool2d.default", "aten.max_pool1d.default"), max_pool),
    **dict.fromkeys(("aten.avg_pool2d.default", "aten.avg_pool1d.default"), avg_pool),
    **dict.fromkeys(("aten.adaptive_avg_pool2d.default", "aten.adaptive_avg_pool1d.default"), adaptive("average")),
    **dict.fromkeys(("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool1d.default"), adaptive("max")),
    "aten.mean.dim": mean,
    "aten.sum.dim_IntList": reduction("sum"),
    **dict.fromkeys(("aten.amax.default", "aten.max.dim"), reduction("max")),
    **dict.fromkeys(("aten.amin.default", "aten.min.dim"), reduction("min")),
    "aten.argmax.default": argmax,
    **dict.fromkeys(("aten.upsample_nearest2d.vec", "aten.upsample_nearest1d.vec"), resize("nearest")),
    **dict.fromkeys(("aten.upsample_bilinear2d.vec", "aten.upsample_linear1d.vec"), resize("bilinear")),
}
