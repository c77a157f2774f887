from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from signwise.errors import SignwiseError
from signwise.program.evaluate import error_rate, error_text


def test_anything_that_scores_batches_can_be_evaluated() -> None:
    sizes = []

    def scores(images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        sizes.append(len(images))
        return images

    images = np.eye(4)[[0, 1, 2, 3, 0]]
    assert error_rate(scores, images, np.array([0, 1, 2, 2, 1]), batch_size=2) == pytest.approx(0.4)
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize(("images", "labels"), [(3, 2), (0, 0)])
def test_images_without_labels_are_refused(images: int, labels: int) -> None:
    with pytest.raises(SignwiseError, match=f"as many labels as images are needed, got {labels} and {images}"):
        error_rate(lambda batch: batch, np.zeros((images, 4)), np.zeros(labels))


def test_outputs_that_are_no_vectors_of_scores_are_refused() -> None:
    with pytest.raises(SignwiseError, match=r"one vector of scores per image, got shape \(3, 4\)"):
        error_rate(lambda batch: batch, np.zeros((2, 3, 4)), np.zeros(2))


def test_an_error_is_shown_in_percent_of_the_examples() -> None:
    assert error_text(1 / 3, 60) == "33.33 % of 60 examples"
