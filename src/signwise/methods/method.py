"""The interface between a layer and its binarization method.

A layer owns the latent weights and knows its geometry; a method knows how latents become weights. They exchange tensors
in *filter-major* form, (filters, weights of one filter ...): a layer that stores its weight otherwise rearranges it, so
that a method never has to know about transposed or grouped convolutions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.transform import Partition, binary_sign


@dataclass(frozen=True, eq=False)
class Deployed:
    """The weights of a layer after training.

    Args:
        signs: -1 and +1, in the shape and type of the latent.
        scale: one positive factor per filter, or ``None`` for 1.
    """

    signs: Tensor
    scale: Tensor | None = None


class Method(ABC):
    """A binarization method: the training weight and its gradient, an optional post-step update, the deployed form."""

    @property
    def groups(self) -> Partition:
        """The groups whose health is reported: one per filter, unless a method has others."""
        return 0

    @property
    def needs_after_step(self) -> bool:
        """Whether the method changes the latents after each optimizer step."""
        return type(self).after_step_ is not Method.after_step_

    @abstractmethod
    def weight(self, latent: Tensor, alpha: Tensor, zeta: Tensor) -> Tensor:
        """The weight of the forward pass in training, carrying this method's gradient back to ``latent``.

        Args:
            latent: filter-major, (filters, ...).
            alpha: progress of binarization, 0 to 1, a 0-dim tensor.
            zeta: sharpness, a 0-dim tensor; not every method uses it.
        """

    def after_step_(self, latent: Tensor) -> None:
        """Change the latent in place after an optimizer step (clip, centre); nothing by default."""
        return

    def deploy(self, latent: Tensor) -> Deployed:
        """The form to evaluate and pack: signs, and a scale per filter if the method has one."""
        return Deployed(binary_sign(latent))


def fan_in(latent: Tensor) -> int:
    """The number of inputs of one filter of a filter-major latent."""
    return latent[0].numel()


def straight_through(weight: Tensor, latent: Tensor, factor: float | Tensor = 1.0) -> Tensor:
    """Forward exactly ``weight``; backward the gradient times ``factor``, straight to ``latent``."""
    passed = latent * factor
    return weight.detach() + (passed - passed.detach())


def constant_per_filter(latent: Tensor, value: float) -> Tensor:
    """A scale vector with the same value for every filter of a filter-major latent."""
    return torch.full((latent.shape[0],), value, device=latent.device, dtype=latent.dtype)
