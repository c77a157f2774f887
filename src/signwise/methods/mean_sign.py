"""The sign scaled by the mean magnitude: the 1-bit weights of DoReFa, LSBQ and BitNet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from signwise.errors import SignwiseError
from signwise.methods.method import (
    Deployed,
    Method,
    State,
    check_block,
    constant_per_filter,
    filter_mean,
    he_normal_,
    in_blocks,
    straight_through,
)
from signwise.transform import binary_sign

Per = Literal["layer", "filter"]


def mean_magnitude(latent: Tensor, per: Per, block: int | None = None) -> Tensor:
    """mean|φ| over the layer, 0-dim, each filter, (filters, 1, ...), or each block of a filter's inputs, per weight.

    No gradient flows through it.
    """
    magnitude = latent.detach().abs()
    if block is not None:
        rows = in_blocks(magnitude, block)
        return filter_mean(rows).expand_as(rows).reshape(latent.shape)
    return magnitude.mean() if per == "layer" else filter_mean(magnitude)


@dataclass(frozen=True, kw_only=True)
class MeanSign(Method):
    """Forward m · sign(φ - c) with m = mean|φ|; backward G, the identity; deployed the same.

    ``MeanSign(per="layer")`` is DoReFa with one bit, ``MeanSign()`` LSBQ with one bit, and
    ``MeanSign(per="layer", center="layer")`` the weights of BitNet b1.

    Args:
        per: over what m is taken.
        center: what is subtracted before the sign: nothing, the filter's mean or the layer's mean.
        block: take m over blocks of this many inputs of each neuron instead; see :class:`GroupTransform`.

    Reference:
        S. Zhou et al., DoReFa-Net, 2016; H. Pouransari, Z. Tu, O. Tuzel, Least squares binary quantization of neural
        networks, 2020; H. Wang et al., BitNet, 2023.
    """

    per: Per = "filter"
    center: Per | None = None
    block: int | None = None

    def __post_init__(self) -> None:
        if self.per not in ("layer", "filter"):
            raise SignwiseError(f"per must be 'layer' or 'filter', got {self.per!r}")
        if self.center not in (None, "layer", "filter"):
            raise SignwiseError(f"center must be None, 'layer' or 'filter', got {self.center!r}")
        check_block(self.block)

    def initialize_(self, latent: Tensor, state: State, generator: torch.Generator | None = None) -> None:
        he_normal_(latent, generator)

    def weight(self, latent: Tensor, state: State) -> Tensor:
        return straight_through(mean_magnitude(latent, self.per, self.block) * self._signs(latent), latent)

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        magnitude = mean_magnitude(latent, self.per, self.block)
        if self.block is not None:
            return Deployed(self._signs(latent), magnitude[:, :: self.block].contiguous())
        return Deployed(self._signs(latent), constant_per_filter(latent, magnitude.flatten()))

    def _signs(self, latent: Tensor) -> Tensor:
        latent = latent.detach()
        if self.center is None:
            return binary_sign(latent)
        return binary_sign(latent - (latent.mean() if self.center == "layer" else filter_mean(latent)))
