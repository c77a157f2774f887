"""BinaryConnect: binary weights forward, real-valued latents in [-1, 1] that collect the updates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.errors import SignwiseError
from signwise.methods.method import Method, State, fan_in, fan_out, straight_through
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class BinaryConnect(Method):
    """Forward sign(φ); backward G; the optimizer's step times k^power; φ clipped to [-1, 1]; deployed sign(φ).

    With k = sqrt((fan_in + fan_out) / 1.5), the inverse of Glorot's coefficient. The factor acts on the step, not on
    the gradient, because Adam would cancel the latter.

    Args:
        power: 1 is the authors' rule for Adam, 2 the one for SGD, 0 turns the factor off.
        stochastic: draw +1 with probability clip((φ + 1) / 2, 0, 1) in each forward pass instead of taking the sign.
            The authors evaluate that variant with the real-valued φ, which is not a 1-bit network; here it is
            evaluated and deployed as sign(φ) like the other.

    Reference:
        M. Courbariaux, Y. Bengio, J.-P. David, BinaryConnect, NIPS 2015.
    """

    power: int = 1
    stochastic: bool = False

    def __post_init__(self) -> None:
        if self.power not in (0, 1, 2):
            raise SignwiseError(f"power must be 0, 1 or 2, got {self.power!r}")

    @torch.no_grad()
    def initialize_(self, latent: Tensor, state: State, generator: torch.Generator | None = None) -> None:
        latent.uniform_(-1, 1, generator=generator)

    def weight(self, latent: Tensor, state: State) -> Tensor:
        if not self.stochastic:
            return straight_through(binary_sign(latent), latent)
        probability = ((latent.detach() + 1) / 2).clamp(0, 1)
        return straight_through(2 * torch.bernoulli(probability) - 1, latent)

    def step_factor(self, latent: Tensor) -> float:
        return math.sqrt((fan_in(latent) + fan_out(latent)) / 1.5) ** self.power

    @torch.no_grad()
    def after_step_(self, latent: Tensor, state: State, learning_rate: float) -> None:
        latent.clamp_(-1, 1)
