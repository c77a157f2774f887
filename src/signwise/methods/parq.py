"""PARQ and BinaryRelax: a map from the latents towards ±v that becomes a step by the end."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.errors import SignwiseError
from signwise.methods.mean_sign import Per, mean_magnitude
from signwise.methods.method import Deployed, Knob, Method, State, constant_per_filter, per_filter, straight_through
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class _TowardsLevels(Method):
    """What both share: a level v = mean|φ|, measured anew every ``refresh`` steps, and an identity gradient.

    Args:
        per: over what v is taken.
        refresh: steps between two measurements of v.
        end: the progress at which the map has become a step.
    """

    per: Per = "layer"
    refresh: int = 10
    end: float = 0.75

    def __post_init__(self) -> None:
        if self.per not in ("layer", "filter"):
            raise SignwiseError(f"per must be 'layer' or 'filter', got {self.per!r}")
        if self.refresh < 1:
            raise SignwiseError(f"refresh must be at least 1, got {self.refresh}")
        if not 0 < self.end <= 1:
            raise SignwiseError(f"end must be in (0, 1], got {self.end}")

    def extras(self, latent: Tensor) -> dict[str, Tensor]:
        level = mean_magnitude(latent, self.per)
        return {
            "level": constant_per_filter(latent.detach(), level.flatten()).clone(),
            "age": torch.zeros((), device=latent.device),
        }

    @torch.no_grad()
    def after_step_(self, latent: Tensor, state: State, learning_rate: float) -> None:
        state["age"].add_(1)
        if float(state["age"]) >= self.refresh:
            state["age"].zero_()
            state["level"].copy_(constant_per_filter(latent, mean_magnitude(latent, self.per).flatten()))

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        return Deployed(binary_sign(latent), state["level"].clone())


@dataclass(frozen=True, kw_only=True)
class PARQ(_TowardsLevels):
    """Forward clip(φ / σ, -v, v); backward G; deployed v · sign(φ). σ falls from 1 to 0 along a sigmoid.

    With f = p / end and h(f) = 1 / (1 + e^(S (f - 1/2))), σ = (h(f) - h(1)) / (h(0) - h(1)).

    Args:
        steepness: S; 10 falls smoothly, 100 is nearly a step at half time.

    Reference:
        L. Jin et al., PARQ: Piecewise-affine regularized quantization, ICML 2025.
    """

    steepness: float = 10.0

    def knobs(self) -> dict[str, Knob]:
        return {"slope": self._slope}

    def _slope(self, progress: float) -> float:
        def h(f: float) -> float:
            return 1 / (1 + math.exp(self.steepness * (f - 0.5)))

        return (h(min(progress / self.end, 1.0)) - h(1.0)) / (h(0.0) - h(1.0))

    def weight(self, latent: Tensor, state: State) -> Tensor:
        level, slope = per_filter(state["level"], latent), state["slope"]
        fixed = latent.detach()
        mapped = (fixed / slope.clamp(min=1e-12)).clamp(min=-level, max=level)
        return straight_through(torch.where(slope > 0, mapped, level * binary_sign(fixed)), latent)


@dataclass(frozen=True, kw_only=True)
class BinaryRelax(_TowardsLevels):
    """Forward (1 - θ) φ + θ v sign(φ); backward G; deployed v · sign(φ). θ rises linearly from 0 to 1.

    This is the paper's progressive binarization with ζ = ∞ and the target at ±v, but an identity instead of the exact
    gradient.

    Reference:
        P. Yin et al., BinaryRelax: A relaxation approach for training deep neural networks with quantized weights,
        2018.
    """

    def knobs(self) -> dict[str, Knob]:
        return {"mix": lambda progress: min(progress / self.end, 1.0)}

    def weight(self, latent: Tensor, state: State) -> Tensor:
        mix, fixed = state["mix"], latent.detach()
        target = per_filter(state["level"], latent) * binary_sign(fixed)
        return straight_through((1 - mix) * fixed + mix * target, latent)
