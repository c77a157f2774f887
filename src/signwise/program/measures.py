"""What people ask of a program: how often it errs, how small it is, what it is made of.

The words are here so that every command and every file uses the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.program.operations import Shape

BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation, as ``signwise inspect`` and ``signwise.summary`` list it.

    Args:
        value: the number of its result.
        op: its kind.
        layer: the module of the model that it came from, empty where it has no tensors.
        shape: of the result.
        type: of the result: float32 or an 8-bit type.
        bits: per weight, ``None`` without weights.
        weights: how many it has.
        bytes: of all tensors that it is the first to use.
    """

    value: int
    op: str
    layer: str
    shape: Shape
    type: str
    bits: int | None
    weights: int
    bytes: int


def error_rate(
    scores: Callable[[npt.NDArray[Any]], npt.NDArray[Any]],
    images: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    batch_size: int = BATCH,
) -> float:
    """The share of images whose largest score is not at their label.

    Args:
        scores: from a batch of images to ``(batch, classes)``: a program, a session, any function.
        images: ``(count, ...)``.
        labels: ``(count,)``, the index of the right class.
        batch_size: images per call.

    Example:
        >>> error_rate(lambda x: x, np.array([[0, 1], [1, 0], [3, 2], [0, 9]]), np.array([1, 0, 0, 0]))
        0.25
    """
    if len(images) != len(labels) or len(images) == 0:
        raise SignwiseError(f"as many labels as images are needed, got {len(labels)} and {len(images)}")
    expected, wrong = np.asarray(labels), 0
    for start in range(0, len(images), batch_size):
        batch = scores(images[start : start + batch_size])
        if batch.ndim != 2:
            raise SignwiseError(f"an error rate needs one vector of scores per image, got shape {batch.shape[1:]}")
        wrong += int(np.count_nonzero(batch.argmax(axis=1) != expected[start : start + batch_size]))
    return wrong / len(images)


def error_text(rate: float, count: int, available: int | None = None) -> str:
    """An error rate as files and commands show it.

    Args:
        rate: from 0 to 1.
        count: how many examples it was measured on.
        available: how many there are; ``None`` for as many.

    Example:
        >>> error_text(0.006, 10_000)
        '0.60 % of 10,000 examples'
        >>> error_text(0.006, 1000, 10_000)
        '0.60 % of the first 1,000 of 10,000 examples'
    """
    part = "" if available is None or available == count else f"the first {count:,} of "
    return f"{100 * rate:.2f} % of {part}{available or count:,} examples"


def times_smaller(float32_bytes: int, size: int) -> str:
    """How much the packed weights save, as every command says it.

    Args:
        float32_bytes: of the program's tensors if every weight were a float32.
        size: bytes of its file.

    Example:
        >>> times_smaller(1_728_000, 80_000)
        '21.6 times smaller than with float32 weights'
    """
    return f"{float32_bytes / size:.1f} times smaller than with float32 weights"
