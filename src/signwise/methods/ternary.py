"""Three values per weight, -m, 0 and +m: what BitNet b1.58 trains, to compare one bit with."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from signwise.methods.mean_sign import mean_magnitude
from signwise.methods.method import Deployed, Method, State, constant_per_filter, straight_through
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class Ternary(Method):
    """Forward m · clamp(round(φ / m), -1, 1) with m = mean|φ| of the layer; backward G, the identity.

    The deployed weights have **three values**: this is not a 1-bit network, and ``pack_`` and ``compile`` refuse it.

    Reference:
        S. Ma et al., The Era of 1-bit LLMs: All Large Language Models are in 1.58 Bits, 2024.
    """

    def weight(self, latent: Tensor, state: State) -> Tensor:
        return straight_through(self.deploy(latent.detach(), state).dense(), latent)

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        magnitude = mean_magnitude(latent, "layer")
        # A layer of zeros has no magnitude to divide by, and stays zero.
        used = (latent.abs() / magnitude.clamp_min(1e-30)).round().clamp(max=1)
        return Deployed(binary_sign(latent), constant_per_filter(latent, magnitude), mask=used)
