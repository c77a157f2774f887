"""Random views of training images, a whole batch at a time, on the device where the images are.

Each image is moved, mirrored and zoomed in one pass. Measured from the centre, the pixel u of the view shows the pixel

    x = m * u / s - d,    m = +1 or -1,  s in [1 - zoom, 1 + zoom],  d in {-translate, ..., translate}

of the image; so in the horizontal, and in the vertical with its own d, the same s and m = 1. What lies outside is zero,
the mean of a standardized image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Views(NamedTuple):
    """How each image of a batch is looked at; one row an image."""

    mirrored: Tensor
    """(N,) bool: whether left and right are exchanged."""
    shift: Tensor
    """(N, 2) whole pixels to the right and downwards, before the image is mirrored and zoomed."""
    scale: Tensor
    """(N,) magnification."""

    def part(self, rows: slice) -> Views:
        """The views of some of the images, for a process that holds a part of the batch."""
        return Views(*(values[rows] for values in self))


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Random mirroring, translation and zoom.

    Args:
        flip: whether to mirror every second image, by chance.
        translate: the largest shift in whole pixels, in each direction.
        zoom: the largest change of the magnification, in [0, 1).

    Example:
        >>> images = torch.arange(4.0).reshape(1, 1, 2, 2)
        >>> Augment(flip=True)(images, torch.Generator().manual_seed(0)).tolist()
        [[[[1.0, 0.0], [3.0, 2.0]]]]
    """

    flip: bool = False
    translate: int = 0
    zoom: float = 0.0

    def __post_init__(self) -> None:
        if self.translate < 0:
            raise ValueError(f"translate must not be negative, got {self.translate}")
        if not 0 <= self.zoom < 1:
            raise ValueError(f"zoom must be in [0, 1), got {self.zoom}")

    @property
    def is_identity(self) -> bool:
        """Whether nothing is changed at all."""
        return not (self.flip or self.translate or self.zoom)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """A random view of each image.

        Args:
            images: (N, C, H, W) of a floating type.
            generator: the source of chance; on the CPU it gives the same views to every device.

        Returns:
            A new tensor of the same shape, or ``images`` itself if nothing is to be changed.
        """
        if self.is_identity:
            return images
        return self.apply(images, self.draw(len(images), generator))

    def draw(self, count: int, generator: torch.Generator) -> Views:
        """Choose the views of ``count`` images; what is off costs no random number."""
        device = generator.device
        mirrored = torch.zeros(count, dtype=torch.bool, device=device)
        shift = torch.zeros(count, 2, dtype=torch.long, device=device)
        scale = torch.ones(count, device=device)
        if self.flip:
            mirrored = torch.rand(count, generator=generator, device=device) < 0.5
        if self.translate:
            shift = torch.randint(-self.translate, self.translate + 1, (count, 2), generator=generator, device=device)
        if self.zoom:
            scale += self.zoom * (2 * torch.rand(count, generator=generator, device=device) - 1)
        return Views(mirrored, shift, scale)

    def apply(self, images: Tensor, views: Views) -> Tensor:
        """Look at each image as ``views`` tell."""
        mirrored, shift, scale = (values.to(images.device, non_blocking=True) for values in views)
        height, width = images.shape[-2:]
        inverse = (1 / scale).to(images.dtype)
        # affine_grid measures from -1 to 1 over the whole image, from edge to edge.
        theta = images.new_zeros(len(images), 2, 3)
        theta[:, 0, 0] = torch.where(mirrored, -inverse, inverse)
        theta[:, 1, 1] = inverse
        theta[:, 0, 2] = -2 / width * shift[:, 0]
        theta[:, 1, 2] = -2 / height * shift[:, 1]
        grid = F.affine_grid(theta, list(images.shape), align_corners=False)
        # Without zoom every pixel lands on a pixel: the nearest is the same as the interpolated one, and cheaper.
        mode = "bilinear" if self.zoom else "nearest"
        return F.grid_sample(images, grid, mode=mode, padding_mode="zeros", align_corners=False)
