"""The rules of fusion one by one: where each applies, where it must not, and that the meaning stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from signwise.compiler.builder import Draft
from signwise.compiler.fuse import (
    fold_affine,
    fuse_,
    fuse_relu,
    fuse_residual,
    move_towards_layer,
    name_global_pool,
)
from signwise.program import operations as ops
from signwise.program.operations import pack_signs


class Sketch:
    """A draft with short ways to add operations, on images of 3 x 6 x 6."""

    def __init__(self) -> None:
        self.draft = Draft((3, 6, 6))
        self.rng = np.random.default_rng(0)

    def add(self, operation: ops.Operation, name: str = "") -> int:
        self.draft.output = self.draft.add(operation, name or operation.kind)
        return self.draft.output

    def conv(self, read: int, name: str = "conv", *, bias: bool = False, **options: Any) -> int:
        channels = self.draft.shape(read)[0]
        weight = self.draft.tensor("weight", pack_signs(self.rng.choice([-1, 1], (3, channels * 9))))
        if bias:
            options["bias"] = self.draft.tensor("bias", self.rng.standard_normal(3))
        layer: dict[str, Any] = {"bits": 1, "out_channels": 3, "kernel": (3, 3), "padding": (1, 1, 1, 1)}
        return self.add(ops.Conv(inputs=(read,), weight=weight, **layer, **options), name)

    def affine(self, read: int, *, positive: bool = False, **options: Any) -> int:
        numbers = np.abs(self.rng.standard_normal(self.draft.shape(read)[0])) + 0.1
        if not positive:
            numbers[0] *= -1
        scale = self.draft.tensor("scale", numbers)
        bias = self.draft.tensor("bias", self.rng.standard_normal(len(numbers)))
        return self.add(ops.Affine(inputs=(read,), scale=scale, bias=bias, **options))

    def relu(self, read: int) -> int:
        return self.add(ops.Relu(inputs=(read,)))

    def pool(self, read: int) -> int:
        return self.add(ops.MaxPool(inputs=(read,), kernel=(2, 2), stride=(2, 2)))

    def kinds(self) -> list[str]:
        return [operation.kind for operation in self.draft.ops.values()]

    def outputs(self) -> npt.NDArray[np.float32]:
        images = np.random.default_rng(1).standard_normal((2, 3, 6, 6))
        return self.draft.finish({}).reference(images)


@pytest.fixture
def sketch() -> Sketch:
    return Sketch()


def fused(sketch: Sketch) -> list[str]:
    """The kinds after all rules; the outputs must be those from before."""
    before = sketch.outputs()
    fuse_(sketch.draft)
    np.testing.assert_allclose(sketch.outputs(), before, rtol=1e-5, atol=1e-5)
    return sketch.kinds()


@pytest.mark.parametrize("bias", [False, True])
def test_an_affine_folds_into_the_layer_before_it(sketch: Sketch, bias: bool) -> None:
    value = sketch.affine(sketch.conv(0, bias=bias), relu=True)
    assert fold_affine(sketch.draft, value) and sketch.kinds() == ["conv"]
    layer = sketch.draft.ops[value]
    assert isinstance(layer, ops.Conv) and layer.relu and layer.scale is not None and layer.bias is not None


def test_two_affines_become_one(sketch: Sketch) -> None:
    sketch.affine(sketch.affine(0))
    assert fused(sketch) == ["affine"]


def test_an_affine_stays_behind_a_relu(sketch: Sketch) -> None:
    value = sketch.affine(sketch.conv(0, relu=True))
    assert not fold_affine(sketch.draft, value) and fused(sketch) == ["conv", "affine"]


def test_an_affine_stays_behind_a_value_that_others_read(sketch: Sketch) -> None:
    first = sketch.conv(0)
    value = sketch.affine(first)
    sketch.add(ops.Concat(inputs=(first, value)))
    assert not fold_affine(sketch.draft, value) and fused(sketch) == ["conv", "affine", "concat"]


def test_an_affine_stays_behind_the_input(sketch: Sketch) -> None:
    assert not fold_affine(sketch.draft, sketch.affine(0))


def test_an_affine_after_a_residual_stays(sketch: Sketch) -> None:
    shortcut = sketch.conv(0, "shortcut")
    total = sketch.add(ops.Add(inputs=(sketch.conv(shortcut), shortcut)))
    assert fuse_residual(sketch.draft, total)
    assert not fold_affine(sketch.draft, sketch.affine(total))


@pytest.mark.parametrize("kind", ["conv", "affine", "add"])
def test_a_relu_moves_into_the_operation_before_it(sketch: Sketch, kind: str) -> None:
    if kind == "conv":
        before = sketch.conv(0)
    elif kind == "affine":
        before = sketch.affine(0)
    else:
        before = sketch.add(ops.Add(inputs=(0, 0)))
    value = sketch.relu(before)
    assert fuse_relu(sketch.draft, value) and sketch.kinds() == [kind]
    assert getattr(sketch.draft.ops[value], "relu", False)


def test_a_second_relu_disappears(sketch: Sketch) -> None:
    sketch.relu(sketch.relu(sketch.relu(0)))
    assert fused(sketch) == ["relu"]


def test_a_relu_stays_where_others_read_the_value_before_it(sketch: Sketch) -> None:
    first = sketch.conv(0)
    sketch.add(ops.Add(inputs=(sketch.relu(first), first)))
    assert fused(sketch) == ["conv", "relu", "add"]


@pytest.mark.parametrize("layer_first", [False, True])
def test_an_addition_becomes_the_residual_of_a_layer_on_either_side(sketch: Sketch, layer_first: bool) -> None:
    shortcut = sketch.conv(0, "shortcut")
    layer = sketch.conv(shortcut, "layer")
    value = sketch.add(ops.Add(inputs=(layer, shortcut) if layer_first else (shortcut, layer), relu=True))
    assert fuse_residual(sketch.draft, value) and sketch.kinds() == ["conv", "conv"]
    merged = sketch.draft.ops[value]
    assert isinstance(merged, ops.Conv) and merged.relu and merged.inputs == (shortcut, shortcut)
    assert sketch.draft.names[value] == "layer"


def test_a_layer_takes_no_second_residual(sketch: Sketch) -> None:
    shortcut = sketch.conv(0, "shortcut")
    once = sketch.add(ops.Add(inputs=(sketch.conv(shortcut), shortcut)))
    sketch.add(ops.Add(inputs=(once, shortcut)))
    assert fused(sketch) == ["conv", "conv", "add"]


def test_a_layer_with_a_relu_takes_no_residual(sketch: Sketch) -> None:
    shortcut = sketch.conv(0, "shortcut")
    value = sketch.add(ops.Add(inputs=(sketch.conv(shortcut, relu=True), shortcut)))
    sketch.affine(shortcut)  # a second reader: the shortcut itself is not taken either
    assert not fuse_residual(sketch.draft, value)


def test_a_value_added_to_itself_stays_an_addition(sketch: Sketch) -> None:
    first = sketch.conv(0)
    assert not fuse_residual(sketch.draft, sketch.add(ops.Add(inputs=(first, first))))


def test_a_positive_affine_moves_before_a_max_pool_and_into_the_layer(sketch: Sketch) -> None:
    value = sketch.affine(sketch.pool(sketch.conv(0)), positive=True)
    assert move_towards_layer(sketch.draft, value)
    assert sketch.kinds() == ["conv", "affine", "maxpool"]
    assert fused(sketch) == ["conv", "maxpool"]


def test_an_affine_with_a_negative_scale_stays_behind_a_max_pool(sketch: Sketch) -> None:
    value = sketch.affine(sketch.pool(sketch.conv(0)))
    assert not move_towards_layer(sketch.draft, value) and fused(sketch) == ["conv", "maxpool", "affine"]


def test_a_relu_moves_before_a_max_pool_and_into_the_layer(sketch: Sketch) -> None:
    sketch.relu(sketch.pool(sketch.conv(0)))
    assert fused(sketch) == ["conv", "maxpool"]


def test_nothing_moves_before_a_max_pool_of_the_input(sketch: Sketch) -> None:
    assert not move_towards_layer(sketch.draft, sketch.relu(sketch.pool(0)))


def test_a_flattened_mean_of_the_whole_image_is_a_global_pool(sketch: Sketch) -> None:
    pool = sketch.add(ops.AvgPool(inputs=(sketch.relu(0),), kernel=(6, 6), stride=(6, 6)))
    value = sketch.add(ops.Flatten(inputs=(pool,)))
    assert name_global_pool(sketch.draft, value) and sketch.kinds() == ["relu", "globalpool"]


@pytest.mark.parametrize("options", [{"kernel": (3, 3)}, {"kernel": (6, 6), "padding": (0, 0, 1, 1)}])
def test_a_mean_of_a_part_or_of_padding_is_no_global_pool(sketch: Sketch, options: dict[str, Any]) -> None:
    pool = sketch.add(ops.AvgPool(inputs=(sketch.relu(0),), stride=(6, 6), **options))
    assert not name_global_pool(sketch.draft, sketch.add(ops.Flatten(inputs=(pool,))))
