"""Products of values with each other, softmax, and attention."""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from signwise.compiler.builder import LARGE, Call, Constant, Known, UnsupportedError, Value, float32
from signwise.compiler.translations.elementwise import arithmetic, hides
from signwise.compiler.translations.moves import reshaped
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
    if isinstance(second, Constant) and second.tensor.dim() == 1 and second.layout is None:
        column = replace(second, tensor=second.tensor[:, None])
        wide = replace(call.layout, sizes=(*call.layout.sizes, 1))
        product = matmul(Call(call.draft, call.name, (wide,)), self=self, other=column)
        return Value(reshaped(call, product.number, call.shape), call.layout)
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
    """A sum of products over named dimensions, as transpositions and products of matrices, from left to right."""
    names, result = _named(equation, tensors)
    letters = {
        name[known.layout.batch]
        for name, known in [*zip(names, tensors, strict=True), (result, Value(0, call.layout))]
        if isinstance(known, Value)
    }
    merged = any(isinstance(known, Value) and known.layout.merged for known in tensors) or call.layout.merged
    if len(letters) != 1 or merged:
        raise UnsupportedError(f"the sum {equation!r}, which mixes the examples of a batch")
    (batch,) = letters
    terms = [_term(call, known, name, batch) for known, name in zip(tensors, names, strict=True)]
    result = result.replace(batch, "")
    while len(terms) > 1:
        first, second, *others = terms
        needed = set(result).union(*(name for _, name in others))
        terms = [
            _product(
                call,
                _summed(call, first, needed | set(second[1])),
                _summed(call, second, needed | set(first[1])),
                needed,
            ),
            *others,
        ]
    value, name = _summed(call, terms[0], set(result))
    return Value(_ordered(call, value, tuple(name.index(letter) for letter in result)), call.layout)


def _named(equation: str, tensors: list[Known]) -> tuple[list[str], str]:
    """A letter per dimension of each operand and of the result: capitals from the end for what "..." stands for."""
    read, arrow, result = equation.replace(" ", "").partition("->")
    names = read.split(",")
    ranks = [len(known.layout.sizes) if isinstance(known, Value) else known.tensor.dim() for known in tensors]
    unnamed = max(rank - len(name.replace("...", "")) for rank, name in zip(ranks, names, strict=True))
    spare = [letter for letter in reversed(string.ascii_uppercase) if letter not in equation][:unnamed][::-1]
    for place, (rank, name) in enumerate(zip(ranks, names, strict=True)):
        count = rank - len(name.replace("...", ""))
        names[place] = name.replace("...", "".join(spare[len(spare) - count :]))
    if not arrow:
        every = "".join(names)
        result = "..." * ("..." in equation) + "".join(
            sorted(letter for letter in set(every) - set(spare) if every.count(letter) == 1)
        )
    return names, result.replace("...", "".join(spare))


def _term(call: Call, known: Known, name: str, batch: str) -> tuple[int, str]:
    """An operand without its batch, and with every letter once."""
    if isinstance(known, Constant):
        if known.layout is None and batch in name:
            raise UnsupportedError("a constant with other numbers for every example")
        numbers = known.numbers() if known.layout is None else known.example(known.layout)
        tensor = call.draft.tensor("constant", numbers)
        value = call.step(ops.Constant(inputs=(), tensor=tensor, shape=numbers.shape))
    else:
        value = call.value(known)
    name = name.replace(batch, "")
    for letter in sorted(set(name)):
        while name.count(letter) > 1:  # the diagonal: a product with ones on it, summed over one of the two
            first, second = name.index(letter), name.index(letter, name.index(letter) + 1)
            size = call.draft.shape(value)[first]
            shape = tuple(size if place in (first, second) else 1 for place in range(len(name)))
            ones = call.draft.tensor("diagonal", np.eye(size).reshape(shape))
            value = call.step(ops.Arithmetic(inputs=(value,), function="multiply", operand=ones, shape=shape))
            value = call.step(ops.Reduce(inputs=(value,), function="sum", axes=(second,)))
            name = name[:second] + name[second + 1 :]
    return value, name


def _summed(call: Call, term: tuple[int, str], needed: set[str]) -> tuple[int, str]:
    """The term without the dimensions that nothing else names."""
    value, name = term
    axes = tuple(place for place, letter in enumerate(name) if letter not in needed)
    if axes:
        value = call.step(ops.Reduce(inputs=(value,), function="sum", axes=axes))
    return value, "".join(letter for letter in name if letter in needed)


def _product(call: Call, first: tuple[int, str], second: tuple[int, str], needed: set[str]) -> tuple[int, str]:
    """Two terms as one product of matrices, for each of the dimensions that they share and the result keeps."""
    sizes: dict[str, int] = {}
    for value, name in (first, second):
        sizes |= dict(zip(name, call.draft.shape(value), strict=True))
    shared = [letter for letter in first[1] if letter in second[1] and letter in needed]
    summed = [letter for letter in first[1] if letter in second[1] and letter not in needed]
    left = [letter for letter in first[1] if letter not in second[1]]
    right = [letter for letter in second[1] if letter not in first[1]]

    def arranged(term: tuple[int, str], *groups: list[str]) -> int:
        value, name = term
        value = _ordered(call, value, tuple(name.index(letter) for group in (shared, *groups) for letter in group))
        merged = (math.prod(sizes[letter] for letter in group) for group in groups)
        return reshaped(call, value, (*(sizes[letter] for letter in shared), *merged))

    made = call.step(ops.Matmul(inputs=(arranged(first, left, summed), arranged(second, summed, right))))
    found = [*shared, *left, *right]
    return reshaped(call, made, tuple(sizes[letter] for letter in found)), "".join(found)


def _ordered(call: Call, value: int, axes: tuple[int, ...]) -> int:
    return value if axes == tuple(range(len(axes))) else call.step(ops.Transpose(inputs=(value,), axes=axes))


def bilinear(call: Call, *, input1: Known, input2: Known, weight: Known, bias: Known | None = None) -> Value:
    """x W_o y for each output o: a layer that makes (out, second) of x, times y."""
    matrix = call.constant(weight)
    outputs, width, second = matrix.tensor.shape
    # (out, first, second) -> (out · second, first)
    name = call.draft.tensor("weight", matrix.numbers().transpose(0, 2, 1).reshape(outputs * second, width).copy())
    value = call.step(
        ops.Dense(inputs=(call.value(input1),), weight=name, bits=32, in_features=width, out_features=outputs * second)
    )
    rest = call.draft.shape(value)[:-1]
    value = call.step(ops.Reshape(inputs=(value,), shape=(*rest, outputs, second)))
    other = call.step(ops.Reshape(inputs=(call.value(input2),), shape=(*rest, 1, second)))
    products = call.step(ops.Arithmetic(inputs=(value, other), function="multiply"))
    made = call.add(ops.Reduce(inputs=(products,), function="sum", axes=(len(rest) + 1,)))
    return made if bias is None else arithmetic(call, "add", made, bias)


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
    "aten.bilinear.default": bilinear,
    **dict.fromkeys(("aten.softmax.int", "aten._softmax.default"), softmax(log=False)),
    **dict.fromkeys(("aten.log_softmax.int", "aten._log_softmax.default"), softmax(log=True)),
    "aten.scaled_dot_product_attention.default": attention,
}
