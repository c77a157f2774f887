"""How often scores are wrong: the one error rate for programs, sessions and anything else that scores images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError

BATCH = 64


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


def error_text(rate: float, count: int) -> str:
    """An error rate as files and commands show it.

    Example:
        >>> error_text(0.006, 10_000)
        '0.60 % of 10000 examples'
    """
    return f"{100 * rate:.2f} % of {count} examples"
