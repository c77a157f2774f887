"""The group weight transformation: section 2 of the paper.

A latent tensor φ is split into groups (by default one per filter or neuron). Within a group the positive latents are
gathered around +1 and the others around -1:

    w = (φ - mean⁺) e^-ζ + 1    where φ > 0          (equations 3-7)
    w = (φ - mean⁻) e^-ζ - 1    where φ ≤ 0
    w_α = α w + (1 - α) φ                            (progressive binarization)

With c = e^-ζ that is one reduction and one map,

    w_α = (αc + 1 - α) φ ± α - αc mean±

and, because the means are part of the graph, the gradient is exact. For an incoming gradient G, within one sign,

    ∂/∂φ = (αc + 1 - α) G - αc mean±(G)

so that at α = 1 the gradients of each sign sum to zero: again one reduction and one map. The backward pass saves no
tensor of the latent's size but the latent itself, whose signs say which mean a weight belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

import torch
from torch import Tensor

from signwise.errors import SignwiseError

Squash = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Labels:
    """Groups given by one label per weight, numbered once so that the transform itself never reads their values.

    Args:
        index: the group of each weight, counted from 0, in the latent's shape.
        sizes: the number of weights of each group.
    """

    index: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, labels: Tensor) -> Labels:
        """Number arbitrary integer labels from 0; refuse groups with fewer than two weights."""
        if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
            raise SignwiseError(f"a partition tensor must hold integer labels, got {labels.dtype}")
        values, index, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
        if bool((sizes < 2).any()):
            label = int(values[sizes < 2][0])
            raise SignwiseError(f"a group needs at least 2 weights, but label {label} has only one")
        return cls(index=index, sizes=sizes)


Partition = Union[int, tuple[int, ...], None, Tensor, Labels]


def group_transform(
    latent: Tensor,
    zeta: float | Tensor,
    alpha: float | Tensor = 1.0,
    *,
    partition: Partition = 0,
    squash: Squash | None = None,
    target: Tensor | None = None,
) -> Tensor:
    """The relaxed weights w_α = α g(φ, ζ) + (1 - α) φ, differentiable in φ with the exact gradient.

    Args:
        latent: φ, a floating tensor; float16 and bfloat16 are transformed in float32 and returned in their own type.
        zeta: ζ ≥ 0; the distance of the weights from ±1 shrinks with e^-ζ.
        alpha: α in [0, 1]; 0 gives φ itself, 1 gives g(φ, ζ).
        partition: the dimension or dimensions to keep, one group per index along them (0: per filter or neuron);
            ``None``: the whole tensor is one group; or an integer tensor of the latent's shape with a label per weight.
        squash: the paper's u, applied to φ inside g, e.g. ``torch.tanh``; with a range inside (-1, 1) every |w| at
            α = 1 is within e^-ζ of 1. Off by default, as in the paper's experiments.
        target: s > 0, the magnitude that the weights approach instead of 1; it must broadcast against the latent. A
            target that requires a gradient gets ∂/∂s = α Σ sign(φ) G.

    Returns:
        A tensor of the latent's shape and type.

    Example:
        >>> latent = torch.tensor([[0.5, 1.5, -1.0, -3.0]])
        >>> group_transform(latent, zeta=0.0)
        tensor([[ 0.5000,  1.5000,  0.0000, -2.0000]])
        >>> group_transform(latent, zeta=12.0).round()
        tensor([[ 1.,  1., -1., -1.]])
    """
    if not latent.is_floating_point():
        raise SignwiseError(f"latent weights must be floating point, got {latent.dtype}")
    exact = latent if latent.dtype == torch.float64 else latent.float()
    alpha = _scalar("alpha", alpha, exact, upper=1.0)
    zeta = _scalar("zeta", zeta, exact, upper=float("inf"))
    groups = _groups(exact, partition)
    shrink = alpha * torch.exp(-zeta)
    # With a target of its own the sign is added below, weight by weight, instead of once per group.
    unit = alpha if target is None else torch.zeros_like(alpha)
    if squash is None:
        relaxed = _gather(exact, unit, shrink, 1 - alpha, groups)
    else:
        relaxed = _gather(squash(exact), unit, shrink, torch.zeros_like(alpha), groups) + (1 - alpha) * exact
    if target is not None:
        relaxed = relaxed + alpha * target * binary_sign(exact)
    return relaxed.to(latent.dtype)


def binary_sign(latent: Tensor) -> Tensor:
    """The deployed weights: +1 where φ > 0, otherwise -1, so zero gives -1. NaN stays NaN.

    Example:
        >>> binary_sign(torch.tensor([0.3, 0.0, -2.0, float("nan")]))
        tensor([ 1., -1., -1., nan])
    """
    latent = latent.detach()
    # 2 · [φ > 0] - 1, and NaN passes through both steps.
    return 2 * _is_positive(latent) - 1


def count_by_sign(latent: Tensor, partition: Partition = 0) -> tuple[Tensor, Tensor]:
    """The number of positive and of other weights in each group, as two flat tensors."""
    groups = _groups(latent, partition)
    members = groups.sum(_is_positive(latent.detach().float())).flatten()
    return members, groups.sizes - members


class Groups(NamedTuple):
    """The groups of one latent, given either by dimensions or by numbers.

    Args:
        reduced: the dimensions that a group spans, or ``None``.
        numbers: the group of each weight, counted from 0, or ``None``.
        sizes: the weights per group: one number for all groups, or one per numbered group.
    """

    reduced: tuple[int, ...] | None
    numbers: Tensor | None
    sizes: int | Tensor

    def sum(self, values: Tensor) -> Tensor:
        """Sums over each group: reduced dimensions stay with size 1; numbers give one flat entry per group."""
        if self.numbers is not None and isinstance(self.sizes, Tensor):
            return values.new_zeros(self.sizes.shape).index_add(0, self.numbers.flatten(), values.flatten())
        return values.sum(dim=self.reduced, keepdim=True)


def _gather(latent: Tensor, alpha: Tensor, shrink: Tensor, rest: Tensor, groups: Groups) -> Tensor:
    gathered: Tensor = _Gather.apply(latent, alpha, shrink, rest, *groups)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    """slope · φ ± α - shrink · mean±, with slope = shrink + rest; the gradient as at the head of this file.

    Written with clamps, products and sums, in place on its own temporaries: in eager mode on a CPU a masked
    ``where`` costs ten times as much as a product, and a fresh buffer as much as a pass over it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        latent: Tensor,
        alpha: Tensor,
        shrink: Tensor,
        rest: Tensor,
        reduced: tuple[int, ...] | None,
        index: Tensor | None,
        sizes: int | Tensor,
    ) -> Tensor:
        groups = Groups(reduced, index, sizes)
        positive = _is_positive(latent)
        members = groups.sum(positive)
        others = sizes - members
        part = latent.clamp(min=0)
        mean_positive = groups.sum(part) / members.clamp(min=1)
        part -= latent  # what is left is -φ where φ ≤ 0
        mean_negative = -groups.sum(part) / others.clamp(min=1)
        ctx.save_for_backward(latent, shrink, rest, index, members, others)
        ctx.reduced = reduced
        shift = _choose(positive, alpha - shrink * mean_positive, -alpha - shrink * mean_negative, index)
        return shift.addcmul_(latent, shrink + rest)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        latent, shrink, rest, index, members, others = ctx.saved_tensors
        groups = Groups(ctx.reduced, index, members)
        positive = _is_positive(latent)
        part = gradient * positive
        mean_positive = groups.sum(part) / members.clamp(min=1)
        part = part - gradient
        mean_negative = -groups.sum(part) / others.clamp(min=1)
        shift = _choose(positive, -shrink * mean_positive, -shrink * mean_negative, index)
        return shift.addcmul_(gradient, shrink + rest), None, None, None, None, None, None


def _is_positive(values: Tensor) -> Tensor:
    """1 where positive, 0 where not, NaN where NaN, in the type of the values."""
    return values.clamp(0, 1).ceil_()


def _choose(positive: Tensor, if_positive: Tensor, if_negative: Tensor, index: Tensor | None) -> Tensor:
    """One value per group and sign -> one value per weight."""
    if index is not None:
        if_positive, if_negative = if_positive[index], if_negative[index]
    return (positive * (if_positive - if_negative)).add_(if_negative)


def _groups(latent: Tensor, partition: Partition) -> Groups:
    if isinstance(partition, Tensor):
        partition = Labels.of(partition)
    if not isinstance(partition, Labels):
        reduced, size = _reduced_dimensions(latent, partition)
        return Groups(reduced, None, size)
    if partition.index.shape != latent.shape:
        labelled, wanted = tuple(partition.index.shape), tuple(latent.shape)
        raise SignwiseError(f"the partition tensor has shape {labelled}, but the latent has shape {wanted}")
    return Groups(None, partition.index.to(latent.device), partition.sizes.to(latent.device))


def _reduced_dimensions(latent: Tensor, partition: int | tuple[int, ...] | None) -> tuple[tuple[int, ...], int]:
    """The dimensions that a group spans, and its size."""
    kept: tuple[int, ...] = () if partition is None else (partition,) if isinstance(partition, int) else partition
    for dimension in kept:
        if not -latent.dim() <= dimension < latent.dim():
            raise SignwiseError(f"partition dimension {dimension} is out of range for a latent of {latent.dim()} dims")
    kept = tuple(dimension % latent.dim() for dimension in kept)
    reduced = tuple(dimension for dimension in range(latent.dim()) if dimension not in kept)
    size = 1
    for dimension in reduced:
        size *= latent.shape[dimension]
    if size < 2:
        raise SignwiseError(
            f"a group needs at least 2 weights, but partition {partition!r} of a latent of shape "
            f"{tuple(latent.shape)} gives groups of {size}; keep fewer dimensions"
        )
    return reduced, size


def _scalar(name: str, value: float | Tensor, like: Tensor, upper: float) -> Tensor:
    """A 0-dim tensor on the latent's device. Tensors are not checked: that would wait for the device at each step."""
    if isinstance(value, Tensor):
        return value.detach().to(device=like.device, dtype=like.dtype)
    if not 0 <= value <= upper:
        raise SignwiseError(f"{name} must be in [0, {upper:g}], got {value}")
    return torch.tensor(value, device=like.device, dtype=like.dtype)
