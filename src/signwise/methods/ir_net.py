"""The weights of IR-Net: standardized per filter, with a gradient that sharpens as training goes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.methods.method import Deployed, Knob, Method, State, filter_mean, he_normal_
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class IRNet(Method):
    """Forward s · sign(φ̂) with φ̂ = (φ - mean) / std per filter and s = 2^round(log2 mean|φ̂|).

    Backward the derivative of s · k · tanh(t φ̂) at φ̂, then through the standardization (std with n - 1). The knob
    t = 10^(2p - 1) rises from 0.1 to 10, and k = max(1/t, 1). Deployed s · sign(φ - mean): the sign of the *centred*
    latent.

    Reference:
        H. Qin et al., Forward and backward information retention for accurate binary neural networks, CVPR 2020.
    """

    def knobs(self) -> dict[str, Knob]:
        return {"temperature": lambda progress: float(10 ** (2 * progress - 1))}

    def initialize_(self, latent: Tensor, state: State, generator: torch.Generator | None = None) -> None:
        he_normal_(latent, generator)

    def weight(self, latent: Tensor, state: State) -> Tensor:
        standardized = _standardize(latent)
        scale, temperature = _power_of_two(standardized), state["temperature"]
        passed = scale * (1 / temperature).clamp(min=1) * torch.tanh(temperature * standardized)
        return scale * binary_sign(standardized) + (passed - passed.detach())

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        standardized = _standardize(latent.detach())
        return Deployed(binary_sign(standardized), _power_of_two(standardized).flatten())


def _standardize(latent: Tensor) -> Tensor:
    dimensions = tuple(range(1, latent.dim()))
    return (latent - filter_mean(latent)) / latent.std(dim=dimensions, keepdim=True)


def _power_of_two(standardized: Tensor) -> Tensor:
    return torch.exp2(filter_mean(standardized.detach().abs()).log2().round())
