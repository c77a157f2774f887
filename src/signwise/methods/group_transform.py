"""The paper's method: group weight transformations with progressive binarization. The maths is in ``transform``."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from signwise.methods.method import Method
from signwise.transform import Labels, Partition, Squash, group_transform


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupTransform(Method):
    """Forward w_α, backward its exact gradient, deployed sign(φ).

    Args:
        partition: the groups of the filter-major latent (filters, inputs, ...): the dimensions to keep, ``None`` for
            the whole tensor, or an integer label tensor of the latent's shape. One group per filter by default.
        squash: the paper's u, e.g. ``torch.tanh``; off by default as in the paper's experiments.

    Reference:
        Y. Shulman, Exact Backpropagation in Binary Weighted Networks with Group Weight Transformations, 2021.
    """

    partition: Partition = 0
    squash: Squash | None = None

    def __post_init__(self) -> None:
        if isinstance(self.partition, Tensor):
            # Numbering the labels reads their values, which a compiled forward pass must not do.
            object.__setattr__(self, "partition", Labels.of(self.partition))

    @property
    def groups(self) -> Partition:
        return self.partition

    def weight(self, latent: Tensor, alpha: Tensor, zeta: Tensor) -> Tensor:
        return group_transform(latent, zeta, alpha, partition=self.partition, squash=self.squash)
