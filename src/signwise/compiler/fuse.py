"""Fewer operations with the same meaning: normalization, activation and addition move into the layer before them.

affine(layer(x))        ->  layer with scale and bias          folded batch norm
relu(layer(x))          ->  layer with relu                    also after an affine or an addition
layer(x) + y            ->  layer with a residual              the end of a residual block
affine(max_pool(x))     ->  max_pool(affine(x))                where every scale is positive, so that the largest
relu(max_pool(x))       ->  max_pool(relu(x))                  number stays the largest
flatten(mean of image)  ->  global pool
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from signwise.compiler.builder import Draft
from signwise.program import operations as ops

Rule = Callable[[Draft, int], bool]


def fuse_(draft: Draft) -> None:
    """Apply every rule until none applies. Each leaves fewer operations or moves one towards a layer, so this ends."""
    changed = True
    while changed:
        changed = False
        for value in list(draft.ops):
            for rule in RULES:
                if value in draft.ops and rule(draft, value):
                    changed = True


def fold_affine(draft: Draft, value: int) -> bool:
    affine = draft.ops[value]
    if not isinstance(affine, ops.Affine) or not draft.has_one_reader(affine.inputs[0]):
        return False
    source = affine.inputs[0]
    layer = draft.ops[source]
    if not _takes_affine(layer):
        return False
    assert isinstance(layer, ops.Conv | ops.Dense | ops.Affine)
    factor, offset = draft.tensors[affine.scale], draft.tensors[affine.bias]
    bias = offset if layer.bias is None else factor * draft.tensors[layer.bias] + offset
    scale = factor if layer.scale is None else factor * draft.tensors[layer.scale]
    # Float weights could absorb the factor and save its 4 bytes per channel; a scale keeps the trained weights as they
    # are in the file, and one rule for both kinds of weights.
    scale_name, bias_name = draft.tensor("scale", scale), draft.tensor("bias", bias)
    _merge(draft, source, value, replace(layer, scale=scale_name, bias=bias_name, relu=affine.relu))
    return True


def fuse_relu(draft: Draft, value: int) -> bool:
    relu = draft.ops[value]
    if not isinstance(relu, ops.Relu):
        return False
    source = relu.inputs[0]
    before = draft.ops.get(source)
    if isinstance(before, ops.Relu) or getattr(before, "relu", False):
        draft.redirect(value, source)
        draft.remove(value)
        return True
    if not isinstance(before, ops.Conv | ops.Dense | ops.Affine | ops.Add) or not draft.has_one_reader(source):
        return False
    _merge(draft, source, value, replace(before, relu=True))
    return True


def fuse_residual(draft: Draft, value: int) -> bool:
    add = draft.ops[value]
    if not isinstance(add, ops.Add):
        return False
    for source, other in (add.inputs, add.inputs[::-1]):
        layer = draft.ops.get(source)
        if isinstance(layer, ops.Conv | ops.Dense) and _takes_affine(layer) and draft.has_one_reader(source):
            _merge(draft, source, value, replace(layer, inputs=(layer.inputs[0], other), relu=add.relu))
            return True
    return False


def move_before_max_pool(draft: Draft, value: int) -> bool:
    mover = draft.ops[value]
    if not isinstance(mover, ops.Affine | ops.Relu) or not draft.has_one_reader(mover.inputs[0]):
        return False
    pooled = mover.inputs[0]
    pool = draft.ops[pooled]
    if not isinstance(pool, ops.MaxPool) or not draft.has_one_reader(pool.inputs[0]):
        return False
    source = pool.inputs[0]
    before = draft.ops[source]
    if isinstance(mover, ops.Affine):
        welcome = _takes_affine(before) and bool((draft.tensors[mover.scale] > 0).all())
    else:
        welcome = isinstance(before, ops.Conv | ops.Dense | ops.Affine | ops.Add) and not before.relu
    if not welcome:
        return False
    draft.put(pooled, replace(mover, inputs=(source,)))
    draft.put(value, replace(pool, inputs=(pooled,)))
    draft.names[pooled], draft.names[value] = draft.names[value], draft.names[pooled]
    return True


def name_global_pool(draft: Draft, value: int) -> bool:
    flatten = draft.ops[value]
    if not isinstance(flatten, ops.Flatten) or not draft.has_one_reader(flatten.inputs[0]):
        return False
    source = flatten.inputs[0]
    pool = draft.ops[source]
    if not isinstance(pool, ops.AvgPool) or pool.kernel != draft.shape(pool.inputs[0])[1:]:
        return False
    if any(pool.padding):
        return False
    _merge(draft, source, value, ops.GlobalPool(inputs=pool.inputs))
    return True


RULES: tuple[Rule, ...] = (move_before_max_pool, fold_affine, fuse_relu, fuse_residual, name_global_pool)


def _takes_affine(operation: ops.Operation) -> bool:
    """Whether the operation ends with its own scale and bias: neither ReLU nor residual follows."""
    return (
        isinstance(operation, ops.Conv | ops.Dense | ops.Affine) and not operation.relu and len(operation.inputs) == 1
    )


def _merge(draft: Draft, source: int, value: int, merged: ops.Operation) -> None:
    """Make ``value`` by ``merged``, and drop ``source``, which only ``value`` read."""
    draft.put(value, merged)
    draft.names[value] = draft.names[source]
    draft.remove(source)
