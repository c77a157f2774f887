"""The paper's method: group weight transformations with progressive binarization. The maths is in ``transform``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from signwise.errors import SignwiseError
from signwise.methods.method import Deployed, Method, State, check_block, filter_mean, in_blocks
from signwise.transform import Labels, Partition, Squash, binary_sign, group_transform


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupTransform(Method):
    """Forward w_α, backward its exact gradient, deployed s · sign(φ) with s = 1 in the paper's form.

        g(φ, ζ) = s · sign(φ) + e^-ζ (φ - mean±(φ)),    w_α = α g(φ, ζ) + (1 - α) φ

    With ``scale="mean"`` the targets are at ±s, s = mean|φ| per filter (taken as a constant in the gradient), instead
    of ±1. α = 0 is then the float network and α = 1 a binary network of the same scale, so activations keep their size
    without normalization, and a gradient step moves the latents as far as it would in the float network. With
    ``scale="learned"`` s starts there and is trained: ∂/∂s = α Σ sign(φ) G.

    Args:
        partition: the groups of the filter-major latent (filters, inputs, ...): the dimensions to keep, ``None`` for
            the whole tensor, or an integer label tensor of the latent's shape. One group per filter by default.
        squash: the paper's u, e.g. ``torch.tanh``; off by default as in the paper's experiments.
        scale: ``None`` for the paper's ±1, a positive number, ``"mean"`` for ±mean|φ|, or ``"learned"``.
        block: split the inputs of each neuron of a linear layer into blocks of this many, each with its own scale and
            its own group of the transform. 128 is the block of GGUF's 1-bit format. ``None``: one block per filter.

    Reference:
        Y. Shulman, Exact Backpropagation in Binary Weighted Networks with Group Weight Transformations, 2021. The
        scale and the blocks are ours.
    """

    blends_latent: ClassVar[bool] = True

    partition: Partition = 0
    squash: Squash | None = None
    scale: Literal["mean", "learned"] | float | None = None
    block: int | None = None

    def __post_init__(self) -> None:
        is_number = isinstance(self.scale, (int, float)) and not isinstance(self.scale, bool)
        if self.scale not in (None, "mean", "learned") and not (is_number and 0 < float(self.scale) < math.inf):
            raise SignwiseError(f"scale must be None, 'mean', 'learned' or a positive number, got {self.scale!r}")
        check_block(self.block)
        if self.block is not None and not (isinstance(self.partition, int) and self.partition == 0):
            raise SignwiseError("with block, the groups of the transform are the blocks: leave partition as it is")
        if isinstance(self.partition, Tensor):
            # Numbering the labels reads their values, which a compiled forward pass must not do.
            object.__setattr__(self, "partition", Labels.of(self.partition))

    @property
    def groups(self) -> Partition:
        return self.partition

    def rows(self, latent: Tensor) -> Tensor:
        return in_blocks(latent, self.block)

    def extras(self, latent: Tensor) -> dict[str, Tensor]:
        if self.scale != "learned":
            return {}
        return {"magnitude": nn.Parameter(filter_mean(self.rows(latent).abs()).flatten())}

    def weight(self, latent: Tensor, state: State) -> Tensor:
        rows = self.rows(latent)
        relaxed = group_transform(
            rows,
            state["zeta"],
            state["alpha"],
            partition=self.partition,
            squash=self.squash,
            target=self._target(rows, state),
        )
        return relaxed.view_as(latent)

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        target = self._target(self.rows(latent), state)
        if target is None:
            return Deployed(binary_sign(latent))
        scale = target.detach().flatten()
        return Deployed(binary_sign(latent), scale if self.block is None else scale.view(latent.shape[0], -1))

    def _target(self, rows: Tensor, state: State) -> Tensor | None:
        """s, (rows, 1, ...): what the magnitudes of the weights approach."""
        if self.scale is None:
            return None
        if self.scale == "learned":
            # A scale that crosses zero would turn all signs around: only its magnitude counts.
            return state["magnitude"].abs().view(-1, *[1] * (rows.dim() - 1))
        if self.scale == "mean":
            return filter_mean(rows.detach().abs())
        return rows.new_full((rows.shape[0], *[1] * (rows.dim() - 1)), self.scale)
