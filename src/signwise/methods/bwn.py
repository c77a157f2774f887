"""BWN, the binary weights of XNOR-Net: centred and clipped latents, one measured scale per filter."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.methods.mean_sign import mean_magnitude
from signwise.methods.method import Deployed, Method, State, fan_in, filter_mean, he_normal_, straight_through
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class BWN(Method):
    """Forward m · sign(φ) with m = mean|φ| per filter; deployed the same; gradient, with n the fan-in,

        authors'    n (1 - 1/c) (m · 1[|φ| < 1] + 1/n) G
        exact       n (1 - 1/c) (m · 1[|φ| ≤ 1] · G + sign(φ) · mean(sign(φ) · G))

    where the mean is over the filter, c is the number of input channels, and "exact" is the derivative of the forward
    formula with a straight-through sign. After every step the mean over the input channels is subtracted from the
    latents, one per filter and tap, and they are clipped to [-1, 1]. A layer with one input channel is not centred:
    all its latents would become zero.

    Args:
        exact: use the exact gradient instead of the authors'.
        times_fan_in: multiply the gradient by n, as the authors do for SGD; Adam does not need it.

    Reference:
        M. Rastegari et al., XNOR-Net, ECCV 2016.
    """

    exact: bool = False
    times_fan_in: bool = True

    def initialize_(self, latent: Tensor, state: State, generator: torch.Generator | None = None) -> None:
        he_normal_(latent, generator)
        self.after_step_(latent, state, 0.0)

    def weight(self, latent: Tensor, state: State) -> Tensor:
        signs, scale = binary_sign(latent), mean_magnitude(latent, "filter")
        channels = latent.shape[1]
        factor = (1 - 1 / channels if channels > 1 else 1.0) * (fan_in(latent) if self.times_fan_in else 1)
        magnitude = latent.detach().abs()
        if not self.exact:
            return straight_through(scale * signs, latent, factor * (scale * (magnitude < 1) + 1 / fan_in(latent)))
        passed = factor * (scale * (magnitude <= 1) * latent + signs * filter_mean(signs * latent))
        return (scale * signs) + (passed - passed.detach())

    @torch.no_grad()
    def after_step_(self, latent: Tensor, state: State, learning_rate: float) -> None:
        if latent.shape[1] > 1:
            latent.sub_(latent.mean(dim=1, keepdim=True))
        latent.clamp_(-1, 1)

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        return Deployed(binary_sign(latent), mean_magnitude(latent, "filter").flatten())
