"""Self-Binarizing Networks: tanh(ν φ), ever steeper, with its exact gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.errors import SignwiseError
from signwise.methods.method import Knob, Method, State


@dataclass(frozen=True, kw_only=True)
class SelfBinarizing(Method):
    """Forward tanh(ν φ); backward the exact ν (1 - tanh²(ν φ)) G; deployed sign(φ). ν rises as end^p.

    Where ν|φ| > 9 the gradient is zero in float32: weights freeze by themselves, those far from zero first.

    Args:
        end: ν at the end of the training. The progressive binarization of Bulat et al. (2019) is the same method with
            another schedule.

    Reference:
        F. Lahoud et al., Self-binarizing networks, 2019; A. Bulat et al., Improved training of binary networks for
        human pose estimation and image recognition, 2019.
    """

    end: float = 1000.0

    def __post_init__(self) -> None:
        if not self.end > 1:
            raise SignwiseError(f"end must be greater than 1, got {self.end}")

    def knobs(self) -> dict[str, Knob]:
        return {"steepness": lambda progress: self.end**progress}

    def weight(self, latent: Tensor, state: State) -> Tensor:
        return torch.tanh(state["steepness"] * latent)
