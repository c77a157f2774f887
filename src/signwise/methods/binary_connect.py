"""BinaryConnect, the deterministic variant: its published error belongs to a network with 1-bit weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.methods.method import Method, fan_in, straight_through
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class BinaryConnect(Method):
    """Forward sign(φ); backward k·G; φ clipped to [-1, 1] after each step; deployed sign(φ).

    Args:
        glorot_learning_rate: the authors multiply a layer's learning rate by k = 1 / sqrt(1.5 / (fan_in + fan_out)).
            Here the gradient carries k, which is equivalent for every optimizer whose step is linear in the gradient,
            such as SGD with momentum. Off: k = 1.

    Reference:
        M. Courbariaux, Y. Bengio, J.-P. David, BinaryConnect, NIPS 2015.
    """

    glorot_learning_rate: bool = True

    def weight(self, latent: Tensor, alpha: Tensor, zeta: Tensor) -> Tensor:
        factor = self._gradient_factor(latent) if self.glorot_learning_rate else 1.0
        return straight_through(binary_sign(latent), latent, factor)

    @torch.no_grad()
    def after_step_(self, latent: Tensor) -> None:
        latent.clamp_(-1, 1)

    @staticmethod
    def _gradient_factor(latent: Tensor) -> float:
        # (filters, inputs, *kernel): the fan-out is the number of outputs that one input reaches.
        fan_out = latent[:, 0].numel() if latent.dim() > 1 else latent.shape[0]
        return math.sqrt((fan_in(latent) + fan_out) / 1.5)
