"""Training data on the device: standardized images, random augmentation, and the order of an epoch.

Images live on the device and batches are picked by index, so there are no worker processes. Every random choice is a
pure function of (seed, purpose, index): a run that resumes at step t draws exactly what an uninterrupted run draws at
step t, every process of a distributed run knows the order of all, and no random state is ever saved.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from signwise import datasets
from signwise.datasets import ImageData
from signwise.errors import SignwiseError
from signwise.models import Standardize
from signwise.training.recipe import Recipe


class Split(NamedTuple):
    """Images with their labels.

    Args:
        images: (N, C, H, W), zero mean and unit deviation per channel.
        labels: (N,).
    """

    images: Tensor
    labels: Tensor

    def first(self, count: int | None) -> Split:
        """The first ``count`` images, or all of them for ``None``."""
        return Split(self.images[:count], self.labels[:count])


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingData:
    """The training and the test images of a run, on its device."""

    train: Split
    test: Split


def load_images(recipe: Recipe, path: Path | None) -> ImageData:
    """The images that a recipe trains on.

    Args:
        recipe: names the data set, or says how to read your own.
        path: the folder with the data set, or your own folder or file.
    """
    if recipe.dataset != datasets.OWN:
        return datasets.load(recipe.dataset, path)
    if path is None:
        raise SignwiseError("`data` must name the folder or the .npz file with your images")
    return datasets.load_own(path, image_size=recipe.image_size, test_fraction=recipe.test_fraction)


def standardized_data(
    data: ImageData,
    device: torch.device,
    *,
    train_samples: int | None = None,
    test_samples: int | None = None,
    validation_samples: int = 0,
) -> TrainingData:
    """The first images of each split on the device, standardized by mean and deviation of the *whole* training set.

    Args:
        data: the data set.
        device: where the images go.
        train_samples: number of training images; ``None`` for all.
        test_samples: number of test images; ``None`` for all.
        validation_samples: take this many images from the end of the training set as the test images instead.
    """
    train_images, train_labels = data.train_images[:train_samples], data.train_labels[:train_samples]
    test_images, test_labels = data.test_images, data.test_labels
    if validation_samples:
        if validation_samples >= len(train_images):
            raise SignwiseError(
                f"`validation_samples` must be below the {len(train_images)} training images, got {validation_samples}"
            )
        test_images, test_labels = train_images[-validation_samples:], train_labels[-validation_samples:]
        train_images, train_labels = train_images[:-validation_samples], train_labels[:-validation_samples]
    standardize = Standardize(data.mean, data.std).to(device)

    def split(images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64]) -> Split:
        # In chunks, because all at once would hold the bytes, a float copy and the result at the same time.
        chunks = np.array_split(images, 1 + len(images) // 5000)
        floats = torch.cat([standardize(torch.from_numpy(chunk).to(device)) for chunk in chunks])
        return Split(floats, torch.from_numpy(labels).to(device))

    return TrainingData(
        train=split(train_images, train_labels),
        test=split(test_images[:test_samples], test_labels[:test_samples]),
    )


def derived_seed(seed: int, purpose: str, index: int) -> int:
    """A 63-bit seed that differs for every seed, purpose and index, and is the same on every machine.

    Example:
        >>> derived_seed(0, "order", 0) != derived_seed(0, "order", 1)
        True
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def epoch_order(seed: int, epoch: int, count: int, device: torch.device) -> Tensor:
    """The order in which an epoch visits ``count`` training images.

    Drawn on the CPU whatever the device, so that the same seed means the same order everywhere.
    """
    generator = torch.Generator().manual_seed(derived_seed(seed, "order", epoch))
    return torch.randperm(count, generator=generator).to(device)


def seed_layers(seed: int, device: torch.device) -> None:
    """Seed the generators that random layers on a device draw from.

    ``torch.manual_seed`` also seeds every kind of device that PyTorch knows, which takes a noticeable part of a small
    model's step.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        accelerator = torch.get_device_module(device)
        # With several devices, plain manual_seed means the current device, which may be another one.
        getattr(accelerator, "manual_seed_all", accelerator.manual_seed)(seed)


class Views(NamedTuple):
    """The random transformation of each image of a batch; one row per image."""

    mirrored: Tensor
    """(N,) bool: exchange left and right."""
    shift: Tensor
    """(N, 2) whole pixels to the right and downwards, before mirroring and zoom."""
    scale: Tensor
    """(N,) magnification."""
    angle: Tensor
    """(N,) rotation about the centre, in radians."""

    def part(self, rows: slice) -> Views:
        """The views of some of the images, for a process that holds a part of the batch."""
        return Views(*(values[rows] for values in self))


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Random mirroring, translation, zoom and rotation of a whole batch in one pass, on the images' device.

    Measured from the centre, column u and row v of the result show column x and row y of the image,

        x = (m u cos θ - v sin θ) / s - d,    y = (m u sin θ + v cos θ) / s - e

    with m = +1 or -1, s in [1 - zoom, 1 + zoom], d and e in {-translate, ..., translate} and θ in [-rotate, rotate].
    Pixels outside the image are zero, the mean of a standardized image.

    Args:
        flip: mirror each image with probability 1/2.
        translate: the largest shift in whole pixels, in each direction.
        zoom: the largest change of the magnification, in [0, 1).
        rotate: the largest angle in degrees, in [0, 180].

    Example:
        >>> images = torch.arange(4.0).reshape(1, 1, 2, 2)
        >>> Augment(flip=True)(images, torch.Generator().manual_seed(0)).tolist()
        [[[[1.0, 0.0], [3.0, 2.0]]]]
    """

    flip: bool = False
    translate: int = 0
    zoom: float = 0.0
    rotate: float = 0.0

    def __post_init__(self) -> None:
        if self.translate < 0:
            raise SignwiseError(f"translate must not be negative, got {self.translate}")
        if not 0 <= self.zoom < 1:
            raise SignwiseError(f"zoom must be in [0, 1), got {self.zoom}")
        if not 0 <= self.rotate <= 180:
            raise SignwiseError(f"rotate must be in [0, 180], got {self.rotate}")

    @property
    def is_identity(self) -> bool:
        """Whether images stay as they are."""
        return not (self.flip or self.translate or self.zoom or self.rotate)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment a batch.

        Args:
            images: (N, C, H, W) of a floating type.
            generator: random generator; use a CPU generator for device-independent results.

        Returns:
            A new tensor of the same shape, or ``images`` itself if this is the identity.
        """
        if self.is_identity:
            return images
        return self.apply(images, self.draw(len(images), generator))

    def draw(self, count: int, generator: torch.Generator) -> Views:
        """Draw the views of ``count`` images; a transformation that is off consumes no random numbers."""
        device = generator.device
        mirrored = torch.zeros(count, dtype=torch.bool, device=device)
        shift = torch.zeros(count, 2, dtype=torch.long, device=device)
        scale = torch.ones(count, device=device)
        angle = torch.zeros(count, device=device)
        if self.flip:
            mirrored = torch.rand(count, generator=generator, device=device) < 0.5
        if self.translate:
            shift = torch.randint(-self.translate, self.translate + 1, (count, 2), generator=generator, device=device)
        if self.zoom:
            scale += self.zoom * (2 * torch.rand(count, generator=generator, device=device) - 1)
        if self.rotate:
            angle = math.radians(self.rotate) * (2 * torch.rand(count, generator=generator, device=device) - 1)
        return Views(mirrored, shift, scale, angle)

    def apply(self, images: Tensor, views: Views) -> Tensor:
        """Transform each image by its view."""
        mirrored, shift, scale, angle = (values.to(images.device, non_blocking=True) for values in views)
        height, width = images.shape[-2:]
        cosine, sine = (angle.cos() / scale).to(images.dtype), (angle.sin() / scale).to(images.dtype)
        # affine_grid measures from -1 to 1 over the whole image, edge to edge, also if it is not square.
        theta = images.new_zeros(len(images), 2, 3)
        theta[:, 0, 0] = torch.where(mirrored, -cosine, cosine)
        theta[:, 0, 1] = -sine * (height / width)
        theta[:, 1, 0] = torch.where(mirrored, -sine, sine) * (width / height)
        theta[:, 1, 1] = cosine
        theta[:, 0, 2] = -2 / width * shift[:, 0]
        theta[:, 1, 2] = -2 / height * shift[:, 1]
        grid = F.affine_grid(theta, list(images.shape), align_corners=False)
        # Without zoom and rotation every pixel lands on a pixel: nearest gives the same result, and is cheaper.
        mode = "bilinear" if self.zoom or self.rotate else "nearest"
        return F.grid_sample(images, grid, mode=mode, padding_mode="zeros", align_corners=False)
