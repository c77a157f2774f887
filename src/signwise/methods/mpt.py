"""MPT: random weights that are never trained; the network learns which of them to use."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from signwise.errors import SignwiseError
from signwise.methods.method import Deployed, Method, State, constant_per_filter, fan_in, he_normal_, straight_through
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class MPT(Method):
    """Forward a · M · sign(W); backward to the scores S: G · W · sign(S), at every position. W is not trained.

    M keeps the share ``keep`` of the layer's weights with the largest |S|, and a = Σ|W| over the kept ones divided by
    int(keep · N), one scale per layer. The deployed weights have **three values**, -a, 0 and +a: this is not a 1-bit
    network, and ``pack_`` and ``compile`` refuse it.

    Args:
        keep: the share of weights that remain; the authors' "80 % pruned" is 0.2.

    Reference:
        J. Diffenderfer, B. Kailkhura, Multi-Prize Lottery Ticket Hypothesis, ICLR 2021.
    """

    keep: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise SignwiseError(f"keep must be in (0, 1], got {self.keep}")

    def extras(self, latent: Tensor) -> dict[str, Tensor]:
        bound = 1 / math.sqrt(fan_in(latent))
        return {"scores": nn.Parameter(torch.empty_like(latent).uniform_(-bound, bound))}

    @torch.no_grad()
    def initialize_(self, latent: Tensor, state: State, generator: torch.Generator | None = None) -> None:
        he_normal_(latent, generator)
        bound = 1 / math.sqrt(fan_in(latent))
        state["scores"].uniform_(-bound, bound, generator=generator)

    def weight(self, latent: Tensor, state: State) -> Tensor:
        scores, fixed = state["scores"], latent.detach()
        return straight_through(self.deploy(fixed, state).dense(), scores, fixed * binary_sign(scores))

    def frozen(self, progress: float) -> bool:
        return True

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        count = latent.numel()
        pruned = int((1 - self.keep) * count)
        mask = latent.new_ones(count)
        mask[state["scores"].detach().abs().flatten().argsort()[:pruned]] = 0
        mask = mask.view_as(latent)
        scale = (latent.abs() * mask).sum() / max(int(self.keep * count), 1)
        return Deployed(binary_sign(latent), constant_per_filter(latent, scale), mask=mask)
