"""Operators that move numbers: views, permutations, parts, joins, padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from signwise.compiler.builder import Call, Known, UnsupportedError, Value, float32
from signwise.compiler.translations.elementwise import as_condition
from signwise.compiler.translations.functions import truncate
from signwise.program import operations as ops

MOST_PARTS = 4096  # joined one by one, without bound, such a program would take minutes to check


def reshape(call: Call, *, self: Known, **_: object) -> Known:
    """Views of all kinds: the numbers before the batch and those after it stay on their side."""
    value, old, new = call.value(self, whole_numbers=True), call.of(self), replace(call.layout, outer=False)
    if old.before != new.before:
        new = replace(new, outer=True)
    if old.before != new.before:
        raise UnsupportedError("a change of shape that moves the batch")
    return Value(reshaped(call, value, new.shape), new)


def reshaped(call: Call, value: int, shape: tuple[int, ...]) -> int:
    if call.draft.shape(value) == shape:
        return value
    return call.step(ops.Reshape(inputs=(value,), shape=shape))


def same(call: Call, *, self: Known | None = None, input: Known | None = None, **_: object) -> Known:
    """Operators that change nothing in evaluation, or only the storage of a tensor."""
    known = input if self is None else self
    assert known is not None
    return known


def cast(call: Call, *, self: Known, dtype: torch.dtype | None = None, **_: object) -> Known:
    """Another type of number; real numbers that become whole ones are cut off."""
    if dtype in (torch.float16, torch.bfloat16):
        raise UnsupportedError(f"its result is {dtype}, not float32")
    assert isinstance(self, Value)
    if dtype is not None and dtype.is_floating_point:
        return replace(self, number=call.value(self))
    if dtype == torch.bool:
        return as_condition(call, self)
    return self if dtype is None or self.is_whole else truncate(call, self)


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


def part(call: Call, value: int, axis: int, start: int, stop: int, step: int = 1) -> int:
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
    return Value(part(call, value, axis, first, last, step), call.layout)


def select(call: Call, *, self: Known, dim: int, index: int) -> Value:
    value, axis = call.value(self, whole_numbers=True), call.of(self).axis(dim)
    at = index % call.draft.shape(value)[axis]
    return Value(reshaped(call, part(call, value, axis, at, at + 1), call.shape), call.layout)


def joined(call: Call, parts: Sequence[int], axis: int) -> int:
    """Parts one after the other; more than an operation takes are joined in groups."""
    most = ops.Concat.arity[1]
    while len(parts) > 1:
        groups = [tuple(parts[start : start + most]) for start in range(0, len(parts), most)]
        parts = [group[0] if len(group) == 1 else call.step(ops.Concat(inputs=group, axis=axis)) for group in groups]
    return parts[0]


def picked(call: Call, value: int, axis: int, places: Sequence[int]) -> int:
    """The numbers at these places along a dimension: evenly spaced ones are one part, and the parts are joined."""
    runs: list[list[int]] = []
    for place in places:
        run = runs[-1] if runs else []
        step = run[1] - run[0] if len(run) > 1 else place - run[0] if run else 0
        if run and step > 0 and place - run[-1] == step:
            run.append(place)
        else:
            runs.append([place])
    if len(runs) > MOST_PARTS:
        raise UnsupportedError(f"{len(runs)} parts to pick; at most {MOST_PARTS} can be joined")
    value_of = call.draft.real(value) if len(runs) > 1 and call.draft.is_integer(value) else value
    parts = [part(call, value_of, axis, run[0], run[-1] + 1, run[1] - run[0] if len(run) > 1 else 1) for run in runs]
    return joined(call, parts, axis)


def split(call: Call, *, self: Known, dim: int = 0, **_: object) -> list[Value]:
    """split, chunk and their relatives: the sizes of the parts are those of PyTorch's results."""
    value, axis = call.value(self, whole_numbers=True), call.of(self).axis(dim)
    parts, start = [], 0
    for layout in call.layouts:
        stop = start + layout.shape[axis]
        parts.append(Value(part(call, value, axis, start, stop), layout))
        start = stop
    return parts


def unbind(call: Call, *, self: Known, dim: int = 0) -> list[Value]:
    value, axis = call.value(self, whole_numbers=True), call.of(self).axis(dim)
    return [
        Value(reshaped(call, part(call, value, axis, at, at + 1), layout.shape), layout)
        for at, layout in enumerate(call.layouts)
    ]


def concatenate(call: Call, *, tensors: list[Known], dim: int = 0) -> Value:
    axis = call.layout.axis(dim)
    parts = [known for known in tensors if not (isinstance(known, Value) and 0 in known.layout.sizes)]
    return Value(joined(call, [_beside(call, known) for known in parts], axis), call.layout)


def _beside(call: Call, known: Known) -> int:
    """A value to join; constants are repeated as far as the shape needs."""
    value = call.value(known)
    shape = call.draft.shape(value)
    return reshaped(call, value, (1,) * (len(call.shape) - len(shape)) + shape)


def stack(call: Call, *, tensors: list[Known], dim: int = 0) -> Value:
    axis = call.layout.axis(dim)
    values = []
    for known in tensors:
        value = call.value(known)
        shape = call.draft.shape(value)
        values.append(reshaped(call, value, (*shape[:axis], 1, *shape[axis:])))
    return Value(joined(call, values, axis), call.layout)


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
    spread = reshaped(call, value, tuple(apart))
    if tuple(wide) != tuple(apart):
        spread = call.step(ops.Expand(inputs=(spread,), shape=tuple(wide)))
    return Value(reshaped(call, spread, call.shape), call.layout)


def flip(call: Call, *, self: Known, dims: list[int]) -> Value:
    """Backwards: the parts along a dimension joined in the opposite order."""
    value = call.value(self)
    for axis in call.of(self).axes(dims):
        value = picked(call, value, axis, range(call.draft.shape(value)[axis])[::-1])
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
            parts = (part(call, value, axis, cut, size), part(call, value, axis, 0, cut))
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
        value = part(call, value, axis, max(0, -left), call.draft.shape(value)[axis] - max(0, -right))
    return value


def copy(call: Call, *, self: Known, src: Known, **_: object) -> Value:
    """Other numbers in the place of a tensor's own, repeated as far as its shape needs."""
    return expand(call, self=src)


def slice_scatter(
    call: Call,
    *,
    self: Known,
    src: Known,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """x[start:end:step] = y along a dimension: the parts of both, joined again."""
    layout = call.layout
    if dim % len(layout.sizes) == layout.batch:
        if isinstance(src, Value) and src.layout == layout and start in (None, 0):
            return src  # all of the batch
        raise UnsupportedError("it writes to some of the examples of a batch")
    axis = layout.axis(dim)
    size = layout.shape[axis]
    return _scattered(call, self, call.value(src), axis, range(*slice(start, end, step).indices(size)))


def select_scatter(call: Call, *, self: Known, src: Known, dim: int, index: int) -> Value:
    """x[index] = y along a dimension."""
    axis = call.layout.axis(dim)
    shape = call.shape
    written = reshaped(call, call.value(src), (*shape[:axis], 1, *shape[axis + 1 :]))
    at = index % shape[axis]
    return _scattered(call, self, written, axis, range(at, at + 1))


def _scattered(call: Call, into: Known, written: int, axis: int, places: range) -> Value:
    kept = call.value(into)
    size = call.draft.shape(kept)[axis]
    # Of both, one after the other, the places of the result: runs of either stay in one part.
    both = call.step(ops.Concat(inputs=(kept, written), axis=axis))
    order = list(range(size))
    for number, place in enumerate(places):
        order[place] = size + number
    return Value(picked(call, both, axis, order), call.layout)


def unfold(call: Call, *, self: Known, dimension: int, size: int, step: int) -> Value:
    """Windows along a dimension, which become a new one at the end."""
    value, axis = call.value(self), call.of(self).axis(dimension)
    shape = call.draft.shape(value)
    starts = range(0, shape[axis] - size + 1, step)
    value = picked(call, value, axis, [start + at for start in starts for at in range(size)])
    value = reshaped(call, value, (*shape[:axis], len(starts), size, *shape[axis + 1 :]))
    order = [place for place in range(len(shape) + 1) if place != axis + 1]
    return _transposed(call, value, (*order, axis + 1))


def diagonal(call: Call, *, self: Known, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Every (columns + 1)th number of a matrix written as one row."""
    value, (first, second) = call.value(self), (call.of(self).axis(dim) for dim in (dim1, dim2))
    shape = call.draft.shape(value)
    others = [place for place in range(len(shape)) if place not in (first, second)]
    value = _transposed(call, value, (*others, first, second)).number
    rows, columns = shape[first], shape[second]
    value = reshaped(call, value, (*(shape[place] for place in others), rows * columns))
    start = offset if offset >= 0 else -offset * columns
    count = call.shape[-1]
    places = range(start, start + count * (columns + 1), columns + 1)
    return Value(picked(call, value, len(others), places), call.layout)


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
    **dict.fromkeys(
        (
            "aten.split.Tensor", "aten.unsafe_split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default",
            "aten.tensor_split.sections", "aten.tensor_split.indices",
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
    "aten.copy.default": copy,
    "aten.slice_scatter.default": slice_scatter,
    "aten.select_scatter.default": select_scatter,
    "aten.unfold.default": unfold,
    "aten.diagonal.default": diagonal,
    **dict.fromkeys(("aten.pad.default", "aten.constant_pad_nd.default"), pad),
    "aten.pixel_shuffle.default": pixel_shuffle,
    "aten.pixel_unshuffle.default": pixel_unshuffle,
    **dict.fromkeys(("aten.channel_shuffle.default", "aten.native_channel_shuffle.default"), channel_shuffle),
}  # fmt: skip
