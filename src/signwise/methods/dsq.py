"""DSQ with one bit: a hard step forward, the derivative of a learned soft step backward."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from signwise.methods.method import Deployed, Method, State, constant_per_filter
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class DSQ(Method):
    """Forward u · sign(φ); backward the derivative of Q(φ) = u · s · tanh(k φ) inside [-u, u], ±u outside.

    The softness a in (0, 1) sets k = ln(2/a - 1) / (2u) and s = 1 / (1 - a), so that Q(±u) = ±u. u and a are learned,
    one each per layer, with their own derivatives. The published form has two bounds; the symmetric one, which needs
    no offset when it is deployed, is ours. Deployed u · sign(φ).

    Reference:
        R. Gong et al., Differentiable soft quantization, ICCV 2019.
    """

    def extras(self, latent: Tensor) -> dict[str, Tensor]:
        bound = 1.5 * latent.detach().abs().mean()
        # A latent on the meta device or all zero has no magnitude to start from.
        start = float(bound) if not latent.is_meta and float(bound) > 0 else 1.0
        return {
            "bound": nn.Parameter(torch.full((), start, device=latent.device, dtype=latent.dtype)),
            "softness": nn.Parameter(torch.full((), 0.2, device=latent.device, dtype=latent.dtype)),
        }

    @torch.no_grad()
    def initialize_(self, latent: Tensor, state: State, generator: torch.Generator | None = None) -> None:
        state["bound"].copy_(1.5 * latent.abs().mean())
        state["softness"].fill_(0.2)

    def weight(self, latent: Tensor, state: State) -> Tensor:
        bound, softness = self._bound(state), state["softness"].clamp(0.01, 0.99)
        steepness = torch.log(2 / softness - 1) / (2 * bound)
        inside = bound / (1 - softness) * torch.tanh(steepness * latent)
        soft = torch.where(latent.abs() <= bound, inside, bound * binary_sign(latent))
        return (bound * binary_sign(latent)).detach() + (soft - soft.detach())

    @torch.no_grad()
    def after_step_(self, latent: Tensor, state: State, learning_rate: float) -> None:
        state["softness"].clamp_(0.01, 0.99)

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        return Deployed(binary_sign(latent), constant_per_filter(latent, self._bound(state).detach()))

    @staticmethod
    def _bound(state: State) -> Tensor:
        return state["bound"].clamp(min=1e-4)
