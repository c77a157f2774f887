"""LAB, loss-aware binarization: a scale per layer, weighted by the curvature that Adam's second moment estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.methods.method import (
    Deployed,
    Method,
    State,
    constant_per_filter,
    fan_in,
    fan_out,
    straight_through,
)
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class LAB(Method):
    """Forward a · sign(φ) with a = Σ|D φ| / Σ D over the layer; backward G; φ clipped to [-1, 1]; deployed the same.

    D = sqrt(v) + 1e-8, and v ← 0.999 v + 0.001 G² before each step, without bias correction. v is saved with the layer,
    because the deployed scale depends on it.

    Reference:
        L. Hou, Q. Yao, J. T. Kwok, Loss-aware binarization of deep networks, ICLR 2017.
    """

    def extras(self, latent: Tensor) -> dict[str, Tensor]:
        return {"second_moment": torch.zeros_like(latent)}

    @torch.no_grad()
    def initialize_(self, latent: Tensor, state: State, generator: torch.Generator | None = None) -> None:
        bound = math.sqrt(1.5 / (fan_in(latent) + fan_out(latent)))
        latent.uniform_(-bound, bound, generator=generator)

    def weight(self, latent: Tensor, state: State) -> Tensor:
        return straight_through(self._scale(latent, state) * binary_sign(latent), latent)

    @torch.no_grad()
    def before_step_(self, latent: Tensor, gradient: Tensor, state: State) -> None:
        state["second_moment"].mul_(0.999).addcmul_(gradient, gradient, value=0.001)

    @torch.no_grad()
    def after_step_(self, latent: Tensor, state: State, learning_rate: float) -> None:
        latent.clamp_(-1, 1)

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        return Deployed(binary_sign(latent), constant_per_filter(latent, self._scale(latent, state)))

    @staticmethod
    def _scale(latent: Tensor, state: State) -> Tensor:
        curvature = state["second_moment"].sqrt() + 1e-8
        return (curvature * latent.detach().abs()).sum() / curvature.sum()
