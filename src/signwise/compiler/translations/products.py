"""Products of values with each other, softmax, and attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from signwise.compiler.builder import LARGE, Call, Constant, Known, UnsupportedError, Value, float32
from signwise.compiler.translations.elementwise import hides
from signwise.program import operations as ops


def matmul(call: Call, *, self: Known, other: Known | None = None, mat2: Known | None = None) -> Value:
    second = mat2 if other is None else other
    assert second is not None
    if isinstance(second, Constant) and second.tensor.dim() == 2 and second.layout is None and not second.is_signs:
        # x @ W with W as (in, out) is a dense layer.
        name = call.draft.tensor("weight", second.numbers().T.copy())
        width, made = second.tensor.shape
        read = (call.value(self),)
        return call.add(ops.Dense(inputs=read, weight=name, bits=32, in_features=width, out_features=made))
    shapes = [known.layout.sizes if isinstance(known, Value) else known.tensor.shape for known in (self, second)]
    if min(map(len, shapes)) < 2:
        raise UnsupportedError("a product with a vector; unsqueeze makes it a matrix")
    values = [known for known in (self, second) if isinstance(known, Value)]
    if len({value.layout.batch - len(value.layout.sizes) for value in values}) != 1 or any(
        value.layout.batch >= len(value.layout.sizes) - 2 for value in values
    ):
        raise UnsupportedError("a product across the examples of a batch")
    return call.add(ops.Matmul(inputs=(call.value(self), call.value(second))))


def einsum(call: Call, *, equation: str, tensors: list[Known], path: object = None) -> Value:
    """A sum of products over named dimensions, as transpositions and one product of matrices."""
    read, _, made = equation.replace(" ", "").partition("->")
    names = read.split(",")
    if len(names) != 2 or not made or "." in equation or any(len(set(name)) != len(name) for name in (*names, made)):
        raise UnsupportedError(f"the sum {equation!r}")
    layouts = [call.of(known) for known in tensors]
    batch = {name[layout.batch] for name, layout in zip(names, layouts, strict=True)} | {made[call.layout.batch]}
    if len(batch) != 1 or any(layout.merged for layout in (*layouts, call.layout)):
        raise UnsupportedError(f"the sum {equation!r}, which mixes the examples of a batch")
    first, second, result = (name.replace(next(iter(batch)), "") for name in (*names, made))
    shared = [name for name in first if name in second and name in result]
    summed = [name for name in first if name in second and name not in result]
    left = [name for name in first if name not in second]
    right = [name for name in second if name not in first]
    if any(name not in result for name in (*left, *right)):
        raise UnsupportedError(f"the sum {equation!r}, which sums over a dimension of one operand alone")
    values = [call.value(known) for known in tensors]
    sizes: dict[str, int] = {}
    for name, value in zip((first, second), values, strict=True):
        sizes |= dict(zip(name, call.draft.shape(value), strict=True))

    def arranged(value: int, name: str, *groups: list[str]) -> int:
        axes = tuple(name.index(letter) for group in (shared, *groups) for letter in group)
        if axes != tuple(range(len(axes))):
            value = call.step(ops.Transpose(inputs=(value,), axes=axes))
        merged = (math.prod(sizes[letter] for letter in group) for group in groups)
        shape = (*(sizes[letter] for letter in shared), *merged)
        return value if call.draft.shape(value) == shape else call.step(ops.Reshape(inputs=(value,), shape=shape))

    product = call.step(
        ops.Matmul(inputs=(arranged(values[0], first, left, summed), arranged(values[1], second, summed, right)))
    )
    found = [*shared, *left, *right]
    shape = tuple(sizes[letter] for letter in found)
    if call.draft.shape(product) != shape:
        product = call.step(ops.Reshape(inputs=(product,), shape=shape))
    axes = tuple(found.index(letter) for letter in result)
    if axes != tuple(range(len(axes))):
        product = call.step(ops.Transpose(inputs=(product,), axes=axes))
    return Value(product, call.layout)


def softmax(log: bool) -> Callable[..., Value]:
    def translation(call: Call, *, self: Known, dim: int, **_: object) -> Value:
        return call.add(ops.Softmax(inputs=(call.value(self),), axis=call.of(self).axis(dim), log=log))

    return translation


def attention(
    call: Call, *, query: Known, key: Known, value: Known, attn_mask: Known | None = None, dropout_p: float = 0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    layout = call.of(query)
    if layout.batch >= len(layout.sizes) - 2:
        raise UnsupportedError("attention across the examples of a batch")
    factor = 1 / math.sqrt(layout.sizes[-1]) if scale is None else scale
    inputs = [call.value(part) for part in (query, key, value)]
    mask, shape = None, None
    if isinstance(attn_mask, Constant):
        tensor = attn_mask.tensor
        if tensor.dtype == torch.bool:  # true lets through
            tensor = torch.where(tensor, 0.0, -LARGE)
        numbers = Constant(tensor, attn_mask.name, layout=attn_mask.layout).example(call.layout)
        mask, shape = call.draft.tensor("mask", numbers), numbers.shape
    elif isinstance(attn_mask, Value):
        if attn_mask.is_condition:
            attn_mask = hides(Call(call.draft, call.name, (attn_mask.layout,)), attn_mask)
        inputs.append(call.value(attn_mask))
    return call.add(
        ops.Attention(inputs=tuple(inputs), scale=float32(factor), causal=is_causal, mask=mask, mask_shape=shape)
    )


PRODUCTS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("aten.matmul.default", "aten.bmm.default", "aten.mm.default"), matmul),
    "aten.einsum.default": einsum,
    **dict.fromkeys(("aten.softmax.int", "aten._softmax.default"), softmax(log=False)),
    **dict.fromkeys(("aten.log_softmax.int", "aten._log_softmax.default"), softmax(log=True)),
    "aten.scaled_dot_product_attention.default": attention,
}
