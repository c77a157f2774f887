"""A data set on the device, standardized once, from which batches are picked by index: no worker processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from signwise.datasets import ImageData
from signwise.models import Standardize
from signwise.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceImages:
    """Standardized float images and labels, for training and for the test.

    Args:
        train_images: (N, C, H, W), zero mean and unit deviation a channel.
        train_labels: (N,).
        test_images: (M, C, H, W).
        test_labels: (M,).
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def _standardized(images: npt.NDArray[np.uint8], standardize: Standardize, device: torch.device) -> Tensor:
    # In parts: the whole would need the bytes, a float copy and the result at once.
    parts = [standardize(torch.from_numpy(part).to(device)) for part in np.array_split(images, 1 + len(images) // 5000)]
    return torch.cat(parts)


def to_device(data: ImageData, recipe: Recipe, device: torch.device) -> DeviceImages:
    """Move the images that a recipe uses to the device, standardized by the whole training set's mean and deviation."""
    standardize = Standardize(data.mean, data.std).to(device)
    train, test = slice(recipe.train_samples), slice(recipe.test_samples)
    return DeviceImages(
        train_images=_standardized(data.train_images[train], standardize, device),
        train_labels=torch.from_numpy(data.train_labels[train]).to(device),
        test_images=_standardized(data.test_images[test], standardize, device),
        test_labels=torch.from_numpy(data.test_labels[test]).to(device),
    )
