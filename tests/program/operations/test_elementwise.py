from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F

from signwise.errors import FormatError
from signwise.program import Program
from signwise.program import operations as ops

Floats = npt.NDArray[np.float32]


def random(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(operation: ops.Operation, examples: Floats, tensors: dict[str, npt.NDArray[Any]] | None = None) -> Floats:
    program = Program(input_shape=examples.shape[1:], ops=(operation,), tensors=tensors or {}, output=1)
    found = program.reference(examples)
    assert found.dtype == np.float32 and found.shape[1:] == program.output_shape
    return found


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (ops.Relu(inputs=(0,)), torch.relu),
        (ops.Add(inputs=(0, 0)), lambda x: x + x),
        (ops.Add(inputs=(0, 0), relu=True), lambda x: torch.relu(x + x)),
        (ops.GlobalPool(inputs=(0,)), lambda x: x.mean((2, 3))),
        (ops.PadChannels(inputs=(0,), before=1, after=2), lambda x: F.pad(x, (0, 0, 0, 0, 1, 2))),
        (ops.Flatten(inputs=(0,)), lambda x: x.flatten(1)),
        (ops.Concat(inputs=(0, 0)), lambda x: torch.cat([x, x], 1)),
    ],
    ids=lambda part: getattr(part, "kind", ""),
)
def test_an_operation_without_weights_equals_pytorch(
    operation: ops.Operation, expected: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    images = random(0, 2, 3, 4, 5)
    np.testing.assert_allclose(run(operation, images), expected(torch.tensor(images)), rtol=1e-6)


@pytest.mark.parametrize("shape", [(6,), (6, 3, 2)])
def test_an_affine_scales_and_shifts_each_channel(shape: tuple[int, ...]) -> None:
    examples, scale, bias = random(0, 4, *shape), random(1, 6), random(2, 6)
    found = run(ops.Affine(inputs=(0,), scale="s", bias="b", relu=True), examples, {"s": scale, "b": bias})
    around = (6, *[1] * (len(shape) - 1))
    expected = np.maximum(examples * scale.reshape(around) + bias.reshape(around), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_softmax_of_large_numbers_equals_pytorch() -> None:
    vectors = 50 * random(0, 4, 6)
    expected = torch.softmax(torch.tensor(vectors), 1)
    np.testing.assert_allclose(run(ops.Softmax(inputs=(0,)), vectors), expected, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize(
    ("operation", "shapes", "message"),
    [
        (ops.Add(inputs=(0, 1)), [(3,), (4,)], r"adds shapes \[3\] and \[4\], which differ"),
        (ops.Softmax(inputs=(0,), axis=3), [(3, 2, 2)], r"axis 3 is beyond the shape \[3, 2, 2\] of its input"),
        (ops.GlobalPool(inputs=(0,)), [(3,)], r"needs an image, but its input has shape \[3\]"),
        (ops.Concat(inputs=(0, 1)), [(3, 2, 2), (3, 2, 3)], "which differ beyond the channels"),
    ],
    ids=lambda part: getattr(part, "kind", ""),
)
def test_inputs_that_do_not_fit_are_refused_with_their_shapes(
    operation: ops.Operation, shapes: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        operation.output_shape(shapes)
