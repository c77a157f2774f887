"""The paper's method: group weight transformations with progressive binarization. The maths is in ``transform``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from signwise.errors import SignwiseError
from signwise.methods.method import Deployed, Method, State, filter_mean
from signwise.transform import Labels, Partition, Squash, binary_sign, group_transform


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupTransform(Method):
    """Forward w_α, backward its exact gradient, deployed s · sign(φ) with s = 1 in the paper's form.

        g(φ, ζ) = s · sign(φ) + e^-ζ (φ - mean±(φ)),    w_α = α g(φ, ζ) + (1 - α) φ

    With ``scale="mean"`` the targets are at ±s, s = mean|φ| per filter (taken as a constant in the gradient), instead
    of ±1. α = 0 is then the float network and α = 1 a binary network of the same scale, so activations keep their size
    without normalization, and a gradient step moves the latents as far as it would in the float network.

    Args:
        partition: the groups of the filter-major latent (filters, inputs, ...): the dimensions to keep, ``None`` for
            the whole tensor, or an integer label tensor of the latent's shape. One group per filter by default.
        squash: the paper's u, e.g. ``torch.tanh``; off by default as in the paper's experiments.
        scale: ``None`` for the paper's ±1, ``"mean"`` for ±mean|φ| per filter.

    Reference:
        Y. Shulman, Exact Backpropagation in Binary Weighted Networks with Group Weight Transformations, 2021. The
        scale is ours.
    """

    blends_latent: ClassVar[bool] = True

    partition: Partition = 0
    squash: Squash | None = None
    scale: Literal["mean"] | None = None

    def __post_init__(self) -> None:
        if self.scale not in (None, "mean"):
            raise SignwiseError(f"scale must be None or 'mean', got {self.scale!r}")
        if isinstance(self.partition, Tensor):
            # Numbering the labels reads their values, which a compiled forward pass must not do.
            object.__setattr__(self, "partition", Labels.of(self.partition))

    @property
    def groups(self) -> Partition:
        return self.partition

    def weight(self, latent: Tensor, state: State) -> Tensor:
        alpha, zeta = state["alpha"], state["zeta"]
        return group_transform(
            latent, zeta, alpha, partition=self.partition, squash=self.squash, target=self._target(latent)
        )

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        target = self._target(latent)
        return Deployed(binary_sign(latent), None if target is None else target.flatten())

    def _target(self, latent: Tensor) -> Tensor | None:
        return None if self.scale is None else filter_mean(latent.detach().abs())
