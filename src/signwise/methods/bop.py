"""Bop: no latents at all; a weight of ±1 flips when the gradient has pushed against it for long enough."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.errors import SignwiseError
from signwise.methods.method import Method, State, straight_through
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class Bop(Method):
    """Forward the weight's sign; before each step m ← m + γ (G - m), and w flips where w · m > τ; deployed the weight.

    The optimizer leaves the weights alone. τ is in units of the gradient, so it depends on the loss and on the layer:
    search it on a logarithmic grid.

    Args:
        threshold: τ.
        adaptivity: γ, the weight of the newest gradient.

    Reference:
        K. Helwegen et al., Latent weights do not exist: Rethinking binarized neural network optimization, NeurIPS 2019.
    """

    threshold: float = 1e-8
    adaptivity: float = 1e-4

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise SignwiseError(f"threshold must be at least 0, got {self.threshold}")
        if not 0 < self.adaptivity <= 1:
            raise SignwiseError(f"adaptivity must be in (0, 1], got {self.adaptivity}")

    def extras(self, latent: Tensor) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(latent)}

    def weight(self, latent: Tensor, state: State) -> Tensor:
        return straight_through(binary_sign(latent), latent)

    def frozen(self, progress: float) -> bool:
        return True

    @torch.no_grad()
    def before_step_(self, latent: Tensor, gradient: Tensor, state: State) -> None:
        momentum = state["momentum"]
        momentum.lerp_(gradient, self.adaptivity)
        signs = binary_sign(latent)
        latent.copy_(torch.where(signs * momentum > self.threshold, -signs, signs))
