"""ProxQuant: train the float network, and after each step pull its weights towards -1 and +1."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.errors import SignwiseError
from signwise.methods.method import Knob, Method, State
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class ProxQuant(Method):
    """Forward and backward the latent itself; deployed sign(φ). After each step, with ρ = learning rate · λ,

        φ ← sign(φ) (1 + sign(|φ| - 1) max(||φ| - 1| - ρ, 0)),  then clipped to [-1, 1]

    λ rises linearly from 0 until ``freeze_at``; then φ ← sign(φ), and the optimizer leaves it alone while batch norm
    and the float layers go on learning.

    Args:
        strength: λ at ``freeze_at``. The authors' 0.02 belongs to 200 epochs of 391 steps at learning rate 0.01, where
            all pulls sum to 7.8; keep strength · Σ learning rate / 2 = 7.8 for another budget.
        freeze_at: the progress at which the signs freeze, 2/3 in the authors' runs.

    Reference:
        Y. Bai, Y.-X. Wang, E. Liberty, ProxQuant: Quantized neural networks via proximal operators, ICLR 2019.
    """

    strength: float = 0.02
    freeze_at: float = 2 / 3

    def __post_init__(self) -> None:
        if not self.strength > 0:
            raise SignwiseError(f"strength must be positive, got {self.strength}")
        if not 0 < self.freeze_at <= 1:
            raise SignwiseError(f"freeze_at must be in (0, 1], got {self.freeze_at}")

    def knobs(self) -> dict[str, Knob]:
        # Infinite once frozen: one formula then gives the sign.
        return {"pull": lambda p: float("inf") if self.frozen(p) else self.strength * p / self.freeze_at}

    def frozen(self, progress: float) -> bool:
        return progress >= self.freeze_at

    def weight(self, latent: Tensor, state: State) -> Tensor:
        return torch.where(torch.isinf(state["pull"]), binary_sign(latent), latent)

    @torch.no_grad()
    def after_step_(self, latent: Tensor, state: State, learning_rate: float) -> None:
        if bool(torch.isinf(state["pull"])):
            latent.copy_(binary_sign(latent))
            return
        distance = latent.abs() - 1
        pulled = 1 + distance.sign() * (distance.abs() - learning_rate * state["pull"]).clamp(min=0)
        latent.copy_((latent.sign() * pulled).clamp(-1, 1))
