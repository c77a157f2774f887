"""A VGG that a CPU trains in an hour: whitened patches, then six 3x3 convolutions of 64, 256 and 256 filters.

The plan follows K. Jordan, 94% on CIFAR-10 in 3.29 Seconds on a Single GPU, 2024 (airbench), whose float network needs
some ten epochs for 94 %. Its first layer is not learned: it whitens patches of 2x2 pixels, so that the layers behind it
start from inputs of equal size and without correlation.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from signwise.errors import SignwiseError

_FIT_IMAGES = 5000


class PatchWhitening(nn.Conv2d):
    """A convolution whose filters are the principal directions of image patches, each scaled to unit variance.

        w_i = ± e_i / sqrt(λ_i + ε),    e_i, λ_i the eigenvectors and eigenvalues of the patches' second moments

    Each direction comes with both signs, because a ReLU follows. The filters are not learned, the biases are.

    Args:
        channels: channels of the images.
        size: height and width of a patch.
        epsilon: keeps directions with hardly any variance from being blown up to noise.

    Example:
        >>> images = torch.randn(200, 1, 8, 8) * 5
        >>> layer = PatchWhitening(channels=1, size=2)
        >>> layer.fit_(images)
        >>> round((layer(images) - layer.bias[:, None, None]).var().item(), 1)
        1.0
    """

    def __init__(self, channels: int = 3, size: int = 2, epsilon: float = 5e-4) -> None:
        super().__init__(channels, 2 * channels * size**2, size)
        self.epsilon = epsilon
        self.weight.requires_grad_(False)

    @torch.no_grad()
    def fit_(self, images: Tensor) -> None:
        """Set the filters from images, of which the first 5,000 are used; standardized, as the model will see them.

        Args:
            images: (N, channels, height, width).
        """
        if images.dim() != 4 or images.shape[1] != self.in_channels or len(images) == 0:
            raise SignwiseError(
                f"images must have the shape (N, {self.in_channels}, height, width), got {tuple(images.shape)}"
            )
        # On the CPU in double precision: the same filters on every device.
        patches = F.unfold(images[:_FIT_IMAGES].cpu(), self.kernel_size)  # (N, taps, positions)
        patches = patches.transpose(0, 1).flatten(1)  # (taps, patches)
        moments = (patches @ patches.T).double() / patches.shape[1]
        variances, directions = torch.linalg.eigh(moments)
        filters = (directions / (variances + self.epsilon).sqrt()).T.flip(0)
        self.weight.copy_(torch.cat([filters, -filters]).reshape(self.weight.shape))


def fit_to_images_(model: nn.Module, images: Tensor) -> None:
    """Fit the layers of a model that depend on the training images before training starts: its patch whitening.

    Args:
        model: any model; one without such a layer stays as it is.
        images: the training images, as the model will see them.
    """
    for module in model.modules():
        if isinstance(module, PatchWhitening):
            module.fit_(images)


def vgg_fast(num_classes: int = 10) -> nn.Sequential:
    """The VGG for 32x32 images of three channels.

    Batch norm and ReLU follow each convolution; the first of each pair is pooled before its norm. With all but its
    first and last layer binarized, it has 1,967,616 binary weights.

    Args:
        num_classes: the number of outputs.

    Returns:
        A model from (N, 3, 32, 32) to (N, num_classes). Train it after :func:`fit_to_images_`, which
        ``signwise train`` calls.

    Example:
        >>> vgg_fast().eval()(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """
    whiten = PatchWhitening()
    layers: OrderedDict[str, nn.Module] = OrderedDict(whiten=whiten, relu0=nn.ReLU())  # 32 -> 31
    inputs = whiten.out_channels
    for number, outputs in enumerate((64, 64, 256, 256, 256, 256), start=1):
        layers[f"conv{number}"] = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        if number % 2 == 1:
            layers[f"pool{number}"] = nn.MaxPool2d(2)  # 31 -> 15 -> 7 -> 3
        layers[f"norm{number}"] = nn.BatchNorm2d(outputs)
        layers[f"relu{number}"] = nn.ReLU()
        inputs = outputs
    layers["pool"] = nn.MaxPool2d(3)  # 3 -> 1
    layers["flatten"] = nn.Flatten()
    layers["dense"] = nn.Linear(inputs, num_classes)
    return nn.Sequential(layers)
