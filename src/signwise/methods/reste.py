"""ReSTE: a straight-through estimator that follows the power function |φ|^(1/o), ever closer to the sign."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.errors import SignwiseError
from signwise.methods.mean_sign import mean_magnitude
from signwise.methods.method import Deployed, Knob, Method, State, constant_per_filter, he_normal_, straight_through
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class ReSTE(Method):
    """Forward m · sign(φ) with m = mean|φ| over the layer, in the graph; deployed the same. The sign's gradient is

        (1/o) |φ|^((1 - o)/o)   for 0.1 < |φ| ≤ 1.5,      0.1^(1/o) / 0.1   below,      0   above

    and o = 1 + (1 - cos(p π / 2)) (end - 1) rises from 1, the plain estimator, to ``end``.

    Args:
        end: o at the end of the training.

    Reference:
        X.-M. Wu et al., Estimator meets equilibrium perspective: A rectified straight through estimator for binary
        neural networks training, ICCV 2023.
    """

    end: float = 3.0

    def __post_init__(self) -> None:
        if not self.end >= 1:
            raise SignwiseError(f"end must be at least 1, got {self.end}")

    def knobs(self) -> dict[str, Knob]:
        return {"order": lambda progress: 1 + (1 - math.cos(progress * math.pi / 2)) * (self.end - 1)}

    def initialize_(self, latent: Tensor, state: State, generator: torch.Generator | None = None) -> None:
        he_normal_(latent, generator)

    def weight(self, latent: Tensor, state: State) -> Tensor:
        signs = straight_through(binary_sign(latent), latent, self.gradient_factor(latent.detach(), state["order"]))
        return latent.abs().mean() * signs

    @staticmethod
    def gradient_factor(latent: Tensor, order: Tensor) -> Tensor:
        """The derivative of the estimator at each latent."""
        magnitude = latent.abs()
        middle = magnitude.clamp(min=0.1) ** ((1 - order) / order) / order
        factor = torch.where(magnitude > 0.1, middle, 0.1 ** (1 / order) / 0.1)
        return torch.where(magnitude > 1.5, 0.0, factor)

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        return Deployed(binary_sign(latent), constant_per_filter(latent, mean_magnitude(latent, "layer")))
