"""Operators that move numbers: views, permutations, parts, joins, padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from signwise.compiler.builder import EXAMPLES, Call, Constant, Known, UnsupportedError, Value, float32
from signwise.compiler.translations.elementwise import as_condition
from signwise.program import operations as ops


def reshape(call: Call, *, self: Known, **_: object) -> Known:
    """Views of all kinds: the numbers before the batch and those after it stay on their side."""
    value, old, new = call.value(self, whole_numbers=True), call.of(self), replace(call.layout, outer=False)
    if old.before != new.before:
        new = replace(new, outer=True)
    if old.before != new.before:
        raise UnsupportedError("a change of shape that moves the batch")
    return Value(_reshaped(call, value, new.shape), new)


def _reshaped(call: Call, value: int, shape: tuple[int, ...]) -> int:
    if call.draft.shape(value) == shape:
        return value
    return call.step(ops.Reshape(inputs=(value,), shape=shape))


def same(call: Call, *, self: Known | None = None, input: Known | None = None, **_: object) -> Known:
    """Operators that change nothing in evaluation, or only the storage of a tensor."""
    known = input if self is None else self
    assert known is not None
    return known


def cast(call: Call, *, self: Known, dtype: torch.dtype | None = None, **_: object) -> Known:
    """Another type of number; tokens that become real numbers make the program read them as such."""
    if dtype in (torch.float16, torch.bfloat16):
        raise UnsupportedError(f"its result is {dtype}, not float32")
    if dtype is not None and dtype.is_floating_point:
        call.value(self)
    elif dtype == torch.bool:
        return as_condition(call, self)
    elif isinstance(self, Value) and self.is_condition:
        return self
    elif dtype is not None and not call.draft.is_integer(call.value(self, whole_numbers=True)):
        raise UnsupportedError("real numbers cut off to whole numbers")
    return self


def permute(call: Call, *, self: Known, dims: list[int]) -> Value:
    layout = call.of(self)
    order = [dim % len(dims) for dim in dims]
    axes = [
        (dim if dim <= layout.batch or layout.merged else dim - 1)
        for dim in order
        if dim != layout.batch or layout.merged
    ]
    return _transposed(call, call.value(self, whole_numbers=True), tuple(axes))


def _transposed(call: Call, value: int, axes: tuple[int, ...]) -> Value:
    if axes == tuple(range(len(axes))):
        return Value(value, call.layout)
    return call.add(ops.Transpose(inputs=(value,), axes=axes))


def transpose(call: Call, *, self: Known, dim0: int = 0, dim1: int = 1) -> Value:
    dims = list(range(len(call.of(self).sizes)))
    dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return permute(call, self=self, dims=dims)


def _part(call: Call, value: int, axis: int, start: int, stop: int, step: int = 1) -> int:
    shape = call.draft.shape(value)
    if (start, stop, step) == (0, shape[axis], 1):
        return value
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], stops[axis], steps[axis] = start, stop, step
    if start >= stop:
        raise UnsupportedError("a part of a tensor with nothing in it")
    return call.step(ops.Slice(inputs=(value,), starts=tuple(starts), stops=tuple(stops), steps=tuple(steps)))


def slice_(
    call: Call, *, self: Known, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    value, layout = call.value(self, whole_numbers=True), call.of(self)
    if dim % len(layout.sizes) == layout.batch and call.layout == layout:
        return Value(value, layout)  # all of the batch
    axis = layout.axis(dim)
    first, last, _ = slice(start, end).indices(call.draft.shape(value)[axis])
    return Value(_part(call, value, axis, first, last, step), call.layout)


def select(call: Call, *, self: Known, dim: int, index: int) -> Value:
    value, axis = call.value(self, whole_numbers=True), call.of(self).axis(dim)
    at = index % call.draft.shape(value)[axis]
    return Value(_reshaped(call, _part(call, value, axis, at, at + 1), call.shape), call.layout)


def index(call: Call, *, self: Known, indices: list[Known | None]) -> Value:
    """x[:, numbers] with constant numbers along one dimension; ``x[arange(batch)[:, None], numbers]`` is the same."""
    value, layout = call.value(self), call.of(self)
    if layout.merged or any(isinstance(found, Value) for found in indices):
        raise UnsupportedError("indices that the model computes, or across the examples of a batch")
    chosen = {dim: found for dim, found in enumerate(indices) if isinstance(found, Constant)}
    of_batch = chosen.pop(layout.batch, None)
    if of_batch is not None and of_batch.tensor.flatten().tolist() != list(range(EXAMPLES)):
        raise UnsupportedError("indices across the examples of a batch")
    if len(chosen) != 1 or (of_batch is not None and (layout.batch, *chosen) != (0, 1)):
        raise UnsupportedError("indices along several dimensions")
    ((dim, numbers),) = chosen.items()
    axis = layout.axis(dim)
    picked = numbers.example(call.layout) if numbers.layout is not None else numbers.numbers()
    size = call.draft.shape(value)[axis]
    places = [int(place) % size for place in picked.flatten()]
    if places == list(range(places[0], places[0] + len(places))):
        return Value(_reshaped(call, _part(call, value, axis, places[0], places[-1] + 1), call.shape), call.layout)
    if len(places) > 64:
        raise UnsupportedError(f"{len(places)} indices; at most 64 parts can be joined")
    parts = tuple(_part(call, value, axis, place, place + 1) for place in places)
    joined = parts[0] if len(parts) == 1 else call.step(ops.Concat(inputs=parts, axis=axis))
    return Value(_reshaped(call, joined, call.shape), call.layout)


def split(call: Call, *, self: Known, dim: int = 0, **_: object) -> list[Value]:
    """split, chunk and their relatives: the sizes of the parts are those of PyTorch's results."""
    value, axis = call.value(self, whole_numbers=True), call.of(self).axis(dim)
    parts, start = [], 0
    for layout in call.layouts:
        stop = start + layout.shape[axis]
        parts.append(Value(_part(call, value, axis, start, stop), layout))
        start = stop
    return parts


def unbind(call: Call, *, self: Known, dim: int = 0) -> list[Value]:
    value, axis = call.value(self, whole_numbers=True), call.of(self).axis(dim)
    return [
        Value(_reshaped(call, _part(call, value, axis, at, at + 1), layout.shape), layout)
        for at, layout in enumerate(call.layouts)
    ]


def concatenate(call: Call, *, tensors: list[Known], dim: int = 0) -> Value:
    axis = call.layout.axis(dim)
    parts = [known for known in tensors if not (isinstance(known, Value) and 0 in known.layout.sizes)]
    values = tuple(_beside(call, known) for known in parts)
    return Value(values[0], call.layout) if len(values) == 1 else call.add(ops.Concat(inputs=values, axis=axis))


def _beside(call: Call, known: Known) -> int:
    """A value to join; constants are repeated as far as the shape needs."""
    value = call.value(known)
    shape = call.draft.shape(value)
    return _reshaped(call, value, (1,) * (len(call.shape) - len(shape)) + shape)


def stack(call: Call, *, tensors: list[Known], dim: int = 0) -> Value:
    axis = call.layout.axis(dim)
    values = []
    for known in tensors:
        value = call.value(known)
        shape = call.draft.shape(value)
        values.append(_reshaped(call, value, (*shape[:axis], 1, *shape[axis:])))
    return Value(values[0], call.layout) if len(values) == 1 else call.add(ops.Concat(inputs=tuple(values), axis=axis))


def expand(call: Call, *, self: Known, **_: object) -> Value:
    value, layout = call.value(self), call.of(self)
    if len(call.layout.sizes) - call.layout.batch != len(layout.sizes) - layout.batch:
        raise UnsupportedError("repeats the batch along another dimension")
    if call.draft.shape(value) == call.shape:
        return Value(value, call.layout)
    return call.add(ops.Expand(inputs=(value,), shape=call.shape))


def repeat(call: Call, *, self: Known, repeats: list[Any]) -> Value:
    """Whole copies one after the other along dimensions."""
    layout, value = call.of(self), call.value(self)
    more = len(repeats) - len(layout.sizes)
    if more and layout.batch + more != call.layout.batch:
        raise UnsupportedError("repeats the batch along another dimension")
    counts = [count for dim, count in enumerate(repeats) if dim != call.layout.batch]
    shape = (1,) * (len(counts) - len(call.draft.shape(value))) + call.draft.shape(value)
    # (a, b) -> (1, a, 1, b) -> (n, a, m, b) -> (n·a, m·b): dimensions that are not repeated stay as they are.
    apart = [part for count, size in zip(counts, shape, strict=True) for part in ((1, size) if count > 1 else (size,))]
    wide = [part for pair in zip(counts, shape, strict=True) for part in (pair if pair[0] > 1 else pair[1:])]
    if call.layout.merged or len(wide) > ops.LARGEST_RANK:
        raise UnsupportedError("repeats along too many dimensions at once")
    spread = _reshaped(call, value, tuple(apart))
    if tuple(wide) != tuple(apart):
        spread = call.step(ops.Expand(inputs=(spread,), shape=tuple(wide)))
    return Value(_reshaped(call, spread, call.shape), call.layout)


def flip(call: Call, *, self: Known, dims: list[int]) -> Value:
    """Backwards: the parts along a dimension joined in the opposite order."""
    value = call.value(self)
    for axis in call.of(self).axes(dims):
        size = call.draft.shape(value)[axis]
        if size > 64:
            raise UnsupportedError(f"a flip of {size} numbers; at most 64 parts can be joined")
        parts = tuple(_part(call, value, axis, at, at + 1) for at in reversed(range(size)))
        value = parts[0] if size == 1 else call.step(ops.Concat(inputs=parts, axis=axis))
    return Value(value, call.layout)


def roll(call: Call, *, self: Known, shifts: list[int], dims: list[int]) -> Value:
    if not dims:
        raise UnsupportedError("a roll of the flattened tensor")
    value = call.value(self)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = call.of(self).axis(dim)
        size = call.draft.shape(value)[axis]
        cut = -shift % size
        if cut:
            parts = (_part(call, value, axis, cut, size), _part(call, value, axis, 0, cut))
            value = call.step(ops.Concat(inputs=parts, axis=axis))
    return Value(value, call.layout)


def pad(call: Call, *, self: Known, pad: list[int], mode: str = "constant", value: float | None = 0) -> Value:
    number, layout = call.value(self), call.of(self)
    shape = call.draft.shape(number)
    before, after = [0] * len(shape), [0] * len(shape)
    for position, (left, right) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        if left or right:
            axis = layout.axis(-1 - position)
            before[axis], after[axis] = left, right
    if min(*before, *after) < 0:
        number = _cropped(call, number, before, after)
        before, after = [max(0, side) for side in before], [max(0, side) for side in after]
    if not any(before) and not any(after):
        return Value(number, call.layout)
    fill = float32(value or 0)
    if mode == "constant" and fill == 0 and len(shape) in (1, 3) and not any(before[1:]) and not any(after[1:]):
        return call.add(ops.PadChannels(inputs=(number,), before=before[0], after=after[0]))
    return call.add(ops.Pad(inputs=(number,), before=tuple(before), after=tuple(after), mode=mode, value=fill))


def _cropped(call: Call, value: int, before: list[int], after: list[int]) -> int:
    """Negative padding cuts off."""
    for axis, (left, right) in enumerate(zip(before, after, strict=True)):
        value = _part(call, value, axis, max(0, -left), call.draft.shape(value)[axis] - max(0, -right))
    return value


def pixel_shuffle(call: Call, *, self: Known, upscale_factor: int) -> Value:
    """(c·r², h, w) -> (c, h·r, w·r)."""
    value, factor = call.image(self), upscale_factor
    channels, height, width = call.draft.shape(value)
    apart = call.step(ops.Reshape(inputs=(value,), shape=(channels // factor**2, factor, factor, height, width)))
    moved = call.step(ops.Transpose(inputs=(apart,), axes=(0, 3, 1, 4, 2)))
    return call.add(ops.Reshape(inputs=(moved,), shape=call.shape))


def pixel_unshuffle(call: Call, *, self: Known, downscale_factor: int) -> Value:
    """(c, h·r, w·r) -> (c·r², h, w)."""
    value, factor = call.image(self), downscale_factor
    channels, height, width = call.draft.shape(value)
    shape = (channels, height // factor, factor, width // factor, factor)
    apart = call.step(ops.Reshape(inputs=(value,), shape=shape))
    moved = call.step(ops.Transpose(inputs=(apart,), axes=(0, 2, 4, 1, 3)))
    return call.add(ops.Reshape(inputs=(moved,), shape=call.shape))


def channel_shuffle(call: Call, *, self: Known, groups: int) -> Value:
    value = call.image(self)
    channels, height, width = call.draft.shape(value)
    apart = call.step(ops.Reshape(inputs=(value,), shape=(groups, channels // groups, height, width)))
    moved = call.step(ops.Transpose(inputs=(apart,), axes=(1, 0, 2, 3)))
    return call.add(ops.Reshape(inputs=(moved,), shape=call.shape))


MOVES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(
        (
            "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.flatten.using_ints",
            "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default",
            "aten.unflatten.int", "aten.view_as.default", "aten.reshape_as.default",
        ),
        reshape,
    ),
    **dict.fromkeys(
        (
            "aten.clone.default", "aten.contiguous.default", "aten.alias.default", "aten.detach.default",
            "aten.dropout.default", "aten.feature_dropout.default", "aten.lift_fresh_copy.default",
            "aten.native_dropout.default", "aten.alpha_dropout.default", "aten.feature_alpha_dropout.default",
        ),
        same,
    ),
    **dict.fromkeys(
        ("aten._to_copy.default", "aten.to.dtype", "aten.to.device", "aten.to.dtype_layout", "aten.type_as.default"),
        cast,
    ),
    "aten.permute.default": permute,
    **dict.fromkeys(("aten.transpose.int", "aten.t.default", "aten.swapaxes.default"), transpose),
    "aten.slice.Tensor": slice_,
    "aten.select.int": select,
    "aten.index.Tensor": index,
    **dict.fromkeys(
        (
            "aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default", "aten.tensor_split.sections",
            "aten.tensor_split.indices",
        ),
        split,
    ),
    "aten.unbind.int": unbind,
    "aten.cat.default": concatenate,
    "aten.stack.default": stack,
    **dict.fromkeys(("aten.expand.default", "aten.expand_as.default"), expand),
    "aten.repeat.default": repeat,
    "aten.flip.default": flip,
    "aten.roll.default": roll,
    **dict.fromkeys(("aten.pad.default", "aten.constant_pad_nd.default"), pad),
    "aten.pixel_shuffle.default": pixel_shuffle,
    "aten.pixel_unshuffle.default": pixel_unshuffle,
    **dict.fromkeys(("aten.channel_shuffle.default", "aten.native_channel_shuffle.default"), channel_shuffle),
}  # fmt: skip
