"""Numbers picked by indices: constant ones by parts, computed ones by a product with ones in their places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from signwise.compiler.builder import EXAMPLES, LARGE, Call, Constant, Known, Layout, UnsupportedError, Value
from signwise.compiler.translations.functions import swapped_with_last
from signwise.compiler.translations.moves import joined, part, picked, reshaped
from signwise.program import operations as ops

MOST_TOP = 16
MOST_ROWS = 4096  # that a computed index chooses from: each costs a number per index


def embedding(call: Call, *, weight: Known, indices: Known, **_: object) -> Value:
    """The rows of a table; numbers that the program computes choose them by a product."""
    table = call.constant(weight)
    rows, width = table.tensor.shape
    name = f"shared {table.name}"  # the weight of a head may be the table
    call.draft.tensors.setdefault(name, table.numbers())
    number = call.value(indices, whole_numbers=True)
    if call.draft.is_integer(number):
        return call.add(ops.Embedding(inputs=(number,), weight=name, rows=rows, width=width))
    chosen = one_hot(call, number, rows)
    matrix = call.step(ops.Constant(inputs=(), tensor=name, shape=(rows, width)))
    flat = reshaped(call, chosen, (math.prod(call.draft.shape(number)), rows))
    return Value(reshaped(call, call.step(ops.Matmul(inputs=(flat, matrix))), call.shape), call.layout)


def one_hot(call: Call, value: int, size: int) -> int:
    """(...) -> (..., size): 1 in the place that each whole number names, 0 elsewhere."""
    if size > MOST_ROWS:
        raise UnsupportedError(f"indices that the program computes into {size} rows; at most {MOST_ROWS} are possible")
    draft, shape = call.draft, call.draft.shape(value)
    if draft.is_integer(value):
        table = draft.tensor("one hot", np.eye(size))
        return call.step(ops.Embedding(inputs=(value,), weight=table, rows=size, width=size))
    # relu(1 - |x - i|), which is exact for whole numbers
    places = draft.tensor("places", -np.arange(size, dtype=np.float64))
    wide = call.step(ops.Reshape(inputs=(value,), shape=(*shape, 1)))
    apart = call.step(ops.Arithmetic(inputs=(wide,), function="add", operand=places, shape=(size,)))
    sizes = call.step(ops.Activation(inputs=(apart,), function="abs"))
    one = draft.tensor("one", np.ones(()))
    return call.step(
        ops.Arithmetic(inputs=(sizes,), function="subtract", operand=one, shape=(), swapped=True, relu=True)
    )


def one_hot_operator(call: Call, *, self: Known, num_classes: int = -1) -> Value:
    if num_classes < 1:
        raise UnsupportedError("one_hot without num_classes, whose size depends on the numbers")
    return Value(one_hot(call, call.value(self, whole_numbers=True), num_classes), call.layout)


def index(call: Call, *, self: Known, indices: list[Known | None]) -> Value:
    """x[:, numbers], also along neighbouring dimensions; x[arange(batch), numbers]; table[numbers]."""
    found = {dim: known for dim, known in enumerate(indices) if known is not None}
    computed = [known for known in found.values() if isinstance(known, Value)]
    if isinstance(self, Constant):
        if len(found) > 1 or 0 not in found or self.layout is not None:
            raise UnsupportedError("a constant with indices that the model computes along several dimensions")
        table = Constant(self.tensor.reshape(len(self.tensor), -1), f"{self.name} as rows")
        rows = Call(call.draft, call.name, (call.layout,))
        sizes = call.draft.shape(call.value(computed[0], whole_numbers=True))
        looked_up = embedding(_shaped(rows, (*sizes, table.tensor.shape[1])), weight=table, indices=computed[0])
        return Value(reshaped(call, looked_up.number, call.shape), call.layout)
    layout = call.of(self)
    of_batch = found.pop(layout.batch, None)
    if (
        layout.merged
        or isinstance(of_batch, Value)
        or (of_batch is not None and of_batch.tensor.flatten().tolist() != list(range(EXAMPLES)))
    ):
        raise UnsupportedError("indices across the examples of a batch")
    if of_batch is not None and (layout.batch, *found) != (0, 1):
        raise UnsupportedError("indices along several dimensions beside the batch")
    if computed:
        if of_batch is None or len(found) != 1:
            raise UnsupportedError("indices that the model computes, other than x[torch.arange(batch), indices]")
        return _rows_by_product(call, call.value(self), computed[0])
    return _constant_places(call, self, {layout.axis(dim): known for dim, known in found.items()})


def _shaped(call: Call, shape: tuple[int, ...]) -> Call:
    """A call whose result has this shape per example, batch first."""
    return Call(call.draft, call.name, (Layout((1, *shape), 0),))


def _rows_by_product(call: Call, value: int, chosen: Value) -> Value:
    """(rows, ...) and (picked) -> (picked, ...)."""
    rows, *rest = call.draft.shape(value)
    number = call.value(chosen, whole_numbers=True)
    ones = one_hot(call, number, rows)
    if not call.draft.is_integer(number):  # negative indices count from the end
        size = call.draft.tensor("rows", np.full((), float(rows)))
        later = call.step(ops.Arithmetic(inputs=(number,), function="add", operand=size, shape=()))
        ones = call.step(ops.Add(inputs=(ones, one_hot(call, later, rows))))
    matrix = reshaped(call, ones, (math.prod(call.draft.shape(number)), rows))
    made = call.step(ops.Matmul(inputs=(matrix, reshaped(call, value, (rows, math.prod(rest))))))
    return Value(reshaped(call, made, call.shape), call.layout)


def _constant_places(call: Call, known: Known, chosen: dict[int, Known]) -> Value:
    """Neighbouring dimensions become one, whose places the indices name together."""
    value, axes = call.value(known, whole_numbers=True), sorted(chosen)
    if not axes or axes != list(range(axes[0], axes[0] + len(axes))):
        raise UnsupportedError("indices along dimensions that are not neighbours")
    shape = call.draft.shape(value)
    sizes = [shape[axis] for axis in axes]
    numbers = [
        (index.example(call.layout) if index.layout is not None else index.numbers()).astype(np.int64) % size
        for index, size in ((call.constant(chosen[axis]), shape[axis]) for axis in axes)
    ]
    places = np.ravel_multi_index(np.broadcast_arrays(*numbers), sizes).flatten()
    value = reshaped(call, value, (*shape[: axes[0]], math.prod(sizes), *shape[axes[-1] + 1 :]))
    return Value(reshaped(call, picked(call, value, axes[0], places.tolist()), call.shape), call.layout)


def gather(call: Call, *, self: Known, dim: int, index: Known, **_: object) -> Value:
    """Along one dimension, a number of its own for every place: a sum over products with ones in their places."""
    value, layout = call.value(self), call.layout
    axis = layout.axis(dim)
    for place, size in enumerate(call.shape):
        if place != axis:  # fewer indices than places leave the rest out
            value = part(call, value, place, 0, size)
    count = call.draft.shape(value)[axis]
    if isinstance(index, Constant):
        numbers = index.example(layout).astype(np.int64) % count
        along = np.moveaxis(numbers, axis, -1).reshape(-1, numbers.shape[axis])
        if (along == along[0]).all():
            return Value(picked(call, value, axis, along[0].tolist()), layout)
        number = call.step(
            ops.Constant(
                inputs=(), tensor=call.draft.tensor("indices", numbers.astype(np.float64)), shape=numbers.shape
            )
        )
    else:
        number = call.value(index, whole_numbers=True)
    last = len(call.shape) - 1
    turned = swapped_with_last(last + 1, axis)
    if axis != last:
        value, number = (call.step(ops.Transpose(inputs=(part_of,), axes=turned)) for part_of in (value, number))
    ones = one_hot(call, number, count)  # (..., picked, count)
    shape = call.draft.shape(value)
    wide = reshaped(call, value, (*shape[:-1], 1, shape[-1]))
    products = call.step(ops.Arithmetic(inputs=(ones, wide), function="multiply"))
    made = call.step(ops.Reduce(inputs=(products,), function="sum", axes=(last + 1,)))
    return Value(call.step(ops.Transpose(inputs=(made,), axes=turned)) if axis != last else made, layout)


def top(call: Call, *, self: Known, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Value]:
    """The largest numbers and their places, one after the other: each is hidden before the next is looked for."""
    value, axis = call.value(self), call.of(self).axis(dim)
    shape = call.draft.shape(value)
    if k > MOST_TOP:
        raise UnsupportedError(f"the {k} largest numbers; at most {MOST_TOP} are possible")
    last = len(shape) - 1
    turned = swapped_with_last(last + 1, axis)
    if axis != last:
        value = call.step(ops.Transpose(inputs=(value,), axes=turned))
    if not largest:
        value = call.step(ops.Activation(inputs=(value,), function="negate"))
    values, places = [], []
    for _ in range(k):
        values.append(call.step(ops.Reduce(inputs=(value,), function="max", axes=(last,), keep=True)))
        place = call.step(ops.ArgMax(inputs=(value,), axis=last))
        places.append(reshaped(call, call.draft.real(place), call.draft.shape(values[-1])))
        ones = one_hot(call, place, shape[axis])
        lower = call.draft.tensor("lower", np.full((), -LARGE))
        hidden = call.step(ops.Arithmetic(inputs=(ones,), function="multiply", operand=lower, shape=()))
        value = call.step(ops.Add(inputs=(value, hidden)))
    made = [joined(call, parts, last) for parts in (values, places)]
    if not largest:
        made[0] = call.step(ops.Activation(inputs=(made[0],), function="negate"))
    if axis != last:
        made = [call.step(ops.Transpose(inputs=(number,), axes=turned)) for number in made]
    return [Value(number, call.layout) for number in made]


INDICES: dict[str, Callable[..., Any]] = {
    "aten.embedding.default": embedding,
    "aten.one_hot.default": one_hot_operator,
    **dict.fromkeys(("aten.index.Tensor", "aten._unsafe_index.Tensor"), index),
    "aten.gather.default": gather,
    "aten.topk.default": top,
}
