"""How often a program is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.program.program import Program

BATCH = 64


def error_rate(program: Program, images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
    """The share of examples whose largest output is not at their label.

    Example:
        >>> from signwise.program.operations import Relu
        >>> program = Program(input_shape=(2,), ops=(Relu(inputs=(0,)),), tensors={}, output=1)
        >>> error_rate(program, np.array([[0, 1], [1, 0], [3, 2], [0, 9]]), np.array([1, 0, 0, 0]))
        0.25
    """
    if len(images) != len(labels) or len(images) == 0:
        raise SignwiseError(f"as many labels as images are needed, got {len(labels)} and {len(images)}")
    if len(program.output_shape) != 1:
        raise SignwiseError(f"errors are counted on one vector of scores an image, not on {program.output_shape}")
    wrong = 0
    for start in range(0, len(images), BATCH):
        scores = program(images[start : start + BATCH])
        wrong += int(np.count_nonzero(scores.argmax(axis=1) != labels[start : start + BATCH]))
    return wrong / len(images)
