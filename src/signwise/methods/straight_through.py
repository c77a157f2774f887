"""The straight-through sign, the estimator behind most binary networks."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from signwise.errors import SignwiseError
from signwise.methods.method import Method, straight_through
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class StraightThrough(Method):
    """Forward sign(φ); backward G · 1[|φ| ≤ clip]; deployed sign(φ).

    Args:
        clip: latents further from zero than this get no gradient; ``None`` passes every gradient.

    Reference:
        Y. Bengio, N. Léonard, A. Courville, Estimating or Propagating Gradients Through Stochastic Neurons, 2013;
        the clipped form: I. Hubara et al., Binarized Neural Networks, 2016.
    """

    clip: float | None = 1.0

    def __post_init__(self) -> None:
        if self.clip is not None and not self.clip > 0:
            raise SignwiseError(f"clip must be positive or None, got {self.clip}")

    def weight(self, latent: Tensor, alpha: Tensor, zeta: Tensor) -> Tensor:
        near = 1.0 if self.clip is None else (latent.detach().abs() <= self.clip).to(latent.dtype)
        return straight_through(binary_sign(latent), latent, near)
