"""Fewer operations with the same meaning: normalization, activation and addition move into the layer before them.

affine(layer(x))        ->  layer with scale and bias          folded batch norm
relu(layer(x))          ->  layer with relu                    also after an affine or an addition
layer(x) + y            ->  layer with a residual              the end of a residual block
affine(max_pool(x))     ->  max_pool(affine(x))                where every scale is positive, so that the largest
relu(max_pool(x))       ->  max_pool(relu(x))                  number stays the largest
flatten(mean of image)  ->  global pool
pad(x), then conv       ->  conv with padding
constant ∘ dense(x)     ->  dense with scale and bias          for sequences, along the last dimension
norm(reshape(layer(x))) ->  reshape(norm(layer(x)))            one-dimensional convolutions, which are rows of images
sign(x + shift)         ->  sign with a threshold              learned binary activations
reshapes and transpositions that follow each other become one, those that change nothing go
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from signwise.compiler.builder import Draft
from signwise.program import operations as ops

Rule = Callable[[Draft, int], bool]
ENDS_IN_RELU = (ops.Weighted, ops.Affine, ops.Add, ops.Arithmetic)


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
    assert isinstance(layer, ops.Conv | ops.ConvTranspose | ops.Dense | ops.Affine)
    if isinstance(layer, ops.Dense) and len(draft.shape(source)) != 1:
        return False  # its scale and bias are along the last dimension
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
    if not isinstance(before, ENDS_IN_RELU) or not draft.has_one_reader(source):
        return False
    _merge(draft, source, value, replace(before, relu=True))
    return True


def fuse_residual(draft: Draft, value: int) -> bool:
    add = draft.ops[value]
    if not isinstance(add, ops.Add):
        return False
    for source, other in (add.inputs, add.inputs[::-1]):
        layer = draft.ops.get(source)
        if isinstance(layer, ops.Weighted) and _takes_affine(layer) and draft.has_one_reader(source):
            _merge(draft, source, value, replace(layer, inputs=(layer.inputs[0], other), relu=add.relu))
            return True
    return False


def move_towards_layer(draft: Draft, value: int) -> bool:
    """An affine map or ReLU behind a max pool or a reshape goes in front of it, next to the layer that takes it in."""
    mover = draft.ops[value]
    if not isinstance(mover, ops.Affine | ops.Relu) or not draft.has_one_reader(mover.inputs[0]):
        return False
    middle = mover.inputs[0]
    between = draft.ops[middle]
    if not isinstance(between, ops.MaxPool | ops.Reshape) or not draft.has_one_reader(between.inputs[0]):
        return False
    source = between.inputs[0]
    before = draft.ops[source]
    if isinstance(mover, ops.Relu):
        welcome = isinstance(before, ENDS_IN_RELU) and not before.relu
    elif isinstance(between, ops.MaxPool):
        welcome = _takes_affine(before) and bool((draft.tensors[mover.scale] > 0).all())
    else:
        same_channels = draft.shape(source)[:1] == between.shape[:1] and not isinstance(before, ops.Dense)
        welcome = _takes_affine(before) and same_channels
    if not welcome:
        return False
    draft.put(middle, replace(mover, inputs=(source,)))
    draft.put(value, replace(between, inputs=(middle,)))
    draft.names[middle], draft.names[value] = draft.names[value], draft.names[middle]
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


def absorb_padding(draft: Draft, value: int) -> bool:
    conv = draft.ops[value]
    if not isinstance(conv, ops.Conv):
        return False
    padding = draft.ops.get(conv.inputs[0])
    if not isinstance(padding, ops.Pad) or padding.mode != "constant" or padding.value != 0:
        return False
    (front, top, left), (back, bottom, right) = padding.before, padding.after
    own = conv.padding
    around = (own[0] + top, own[1] + left, own[2] + bottom, own[3] + right)
    if front or back or max(around) > ops.LARGEST_WINDOW:
        return False
    _skip(draft, value, replace(conv, inputs=(padding.inputs[0], *conv.inputs[1:]), padding=around))
    return True


def fold_operand(draft: Draft, value: int) -> bool:
    """A constant added to or multiplied with a dense layer on sequences."""
    operation = draft.ops[value]
    if not isinstance(operation, ops.Arithmetic) or operation.operand is None or operation.swapped:
        return False
    source = operation.inputs[0]
    layer = draft.ops.get(source)
    if operation.function not in ("add", "multiply") or not draft.has_one_reader(source):
        return False
    if not isinstance(layer, ops.Dense) or not _takes_affine(layer):
        return False
    numbers = draft.tensors[operation.operand]
    if numbers.size not in (1, layer.out_features) or (numbers.ndim and numbers.size != numbers.shape[-1]):
        return False
    numbers = np.broadcast_to(numbers.reshape(-1), (layer.out_features,))
    scale, bias = (None if name is None else draft.tensors[name] for name in (layer.scale, layer.bias))
    if operation.function == "multiply":
        scale = numbers if scale is None else scale * numbers
        bias = None if bias is None else bias * numbers
    else:
        bias = numbers if bias is None else bias + numbers
    scale_name = None if scale is None else draft.tensor("scale", scale)
    bias_name = None if bias is None else draft.tensor("bias", bias)
    _merge(draft, source, value, replace(layer, scale=scale_name, bias=bias_name, relu=operation.relu))
    return True


def simplify_moves(draft: Draft, value: int) -> bool:
    """Reshapes of reshapes and transpositions of transpositions; to a vector, a reshape of an image is a flatten."""
    operation = draft.ops[value]
    if not isinstance(operation, ops.Reshape | ops.Transpose | ops.Flatten):
        return False
    source = operation.inputs[0]
    before = draft.ops.get(source)
    if draft.shape(value) == draft.shape(source) and (
        not isinstance(operation, ops.Transpose) or operation.axes == tuple(range(len(operation.axes)))
    ):
        draft.redirect(value, source)
        draft.remove(value)
        return True
    if isinstance(operation, ops.Transpose):
        if not isinstance(before, ops.Transpose):
            return False
        axes = tuple(before.axes[axis] for axis in operation.axes)
        _skip(draft, value, ops.Transpose(inputs=before.inputs, axes=axes))
        return True
    if isinstance(before, ops.Reshape | ops.Flatten):
        _skip(draft, value, ops.Reshape(inputs=before.inputs, shape=draft.shape(value)))
        return True
    if isinstance(operation, ops.Reshape) and len(operation.shape) == 1 and len(draft.shape(source)) == 3:
        draft.put(value, ops.Flatten(inputs=operation.inputs))
        return True
    return False


def set_threshold(draft: Draft, value: int) -> bool:
    """x + b > 0 where x > -b; the affine map before a sign has other scales only where something else was folded."""
    sign = draft.ops[value]
    if not isinstance(sign, ops.Sign) or sign.threshold is not None:
        return False
    shift = draft.ops.get(sign.inputs[0])
    if not isinstance(shift, ops.Affine) or shift.relu or not (draft.tensors[shift.scale] == 1).all():
        return False
    threshold = draft.tensor("threshold", -draft.tensors[shift.bias])
    _skip(draft, value, ops.Sign(inputs=shift.inputs, threshold=threshold))
    return True


RULES: tuple[Rule, ...] = (
    simplify_moves, absorb_padding, move_towards_layer, fold_affine, fold_operand, fuse_relu, fuse_residual,
    name_global_pool, set_threshold,
)  # fmt: skip


def _takes_affine(operation: ops.Operation) -> bool:
    """Whether the operation ends with its own scale and bias: neither ReLU nor residual follows."""
    return isinstance(operation, ops.Weighted | ops.Affine) and not operation.relu and len(operation.inputs) == 1


def _skip(draft: Draft, value: int, operation: ops.Operation) -> None:
    """Make ``value`` from what its source reads, and drop the source if nothing else reads it."""
    source = draft.ops[value].inputs[0]
    draft.put(value, operation)
    if source not in draft.outputs and not any(source in other.inputs for other in draft.ops.values()):
        draft.remove(source)


def _merge(draft: Draft, source: int, value: int, merged: ops.Operation) -> None:
    """Make ``value`` by ``merged``, and drop ``source``, which only ``value`` read."""
    draft.put(value, merged)
    draft.names[value] = draft.names[source]
    draft.remove(source)
