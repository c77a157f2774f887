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

so that at α = 1 the gradients of each sign sum to zero. Every operation below is differentiable PyTorch, so autograd
writes that backward pass; of the latent's size it keeps one byte a weight, the sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

import torch
from torch import Tensor

from signwise.errors import SignwiseError

Squash = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Labels:
    """Groups given by a label for each weight, numbered once so that the transform itself never looks at their values.

    Args:
        index: the group of each weight, from 0 to ``count - 1``, in the latent's shape.
        count: the number of groups.
    """

    index: Tensor
    count: int

    @classmethod
    def of(cls, labels: Tensor) -> Labels:
        """Number arbitrary integer labels from 0; refuse groups with fewer than two weights."""
        if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
            raise SignwiseError(f"a partition tensor must hold integer labels, got {labels.dtype}")
        values, index, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
        if bool((sizes < 2).any()):
            label = int(values[sizes < 2][0])
            raise SignwiseError(f"a group needs at least 2 weights, but label {label} has only one")
        return cls(index=index, count=values.numel())


Partition = Union[int, tuple[int, ...], None, Tensor, Labels]


def group_transform(
    latent: Tensor,
    zeta: float | Tensor,
    alpha: float | Tensor = 1.0,
    *,
    partition: Partition = 0,
    squash: Squash | None = None,
) -> Tensor:
    """The relaxed weights w_α = α g(φ, ζ) + (1 - α) φ, differentiable in φ with the exact gradient.

    Args:
        latent: φ, a floating tensor; float16 and bfloat16 are transformed in float32 and returned in their own type.
        zeta: ζ ≥ 0; the distance of the weights from ±1 shrinks with e^-ζ.
        alpha: α in [0, 1]; 0 gives φ itself, 1 gives g(φ, ζ).
        partition: the dimension or dimensions that are kept, one group per index along them (0: per filter or neuron);
            ``None``: the whole tensor is one group; or an integer tensor of the latent's shape with a label per weight.
        squash: the paper's u, applied to φ inside g, e.g. ``torch.tanh``; with a range inside (-1, 1) every |w| at
            α = 1 is within e^-ζ of 1. Off by default, as in the paper's experiments.

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
    shrink = alpha * torch.exp(-zeta)

    inner = exact if squash is None else squash(exact)
    positive = inner > 0
    mean_positive, mean_negative = _means_by_sign(inner, positive, partition)
    shift = torch.where(positive, alpha - shrink * mean_positive, -alpha - shrink * mean_negative)
    if squash is None:
        relaxed = (shrink + (1 - alpha)) * exact + shift
    else:
        relaxed = shrink * inner + (1 - alpha) * exact + shift
    return relaxed.to(latent.dtype)


def binary_sign(latent: Tensor) -> Tensor:
    """The weights that are deployed: +1 where φ > 0, otherwise -1, so zero gives -1. NaN stays NaN.

    Example:
        >>> binary_sign(torch.tensor([0.3, 0.0, -2.0, float("nan")]))
        tensor([ 1., -1., -1., nan])
    """
    latent = latent.detach()
    # φ - φ is 0 for numbers and NaN for NaN; an infinite latent still has a sign.
    signs = torch.where(latent > 0, 1.0, -1.0).to(latent.dtype)
    return torch.where(torch.isnan(latent), latent, signs)


def count_by_sign(latent: Tensor, partition: Partition = 0) -> tuple[Tensor, Tensor]:
    """The members of the positive and of the negative side of each group, as two flat integer tensors."""
    positive = latent.detach() > 0
    ones, total = positive.long(), torch.ones_like(positive, dtype=torch.long)
    members, everyone = _group_sum(ones, partition), _group_sum(total, partition)
    return members.flatten(), (everyone - members).flatten()


def _means_by_sign(values: Tensor, positive: Tensor, partition: Partition) -> tuple[Tensor, Tensor]:
    """The mean of each sign within each group, broadcastable to the values; 0 for a side without members."""
    if isinstance(partition, Tensor):
        partition = Labels.of(partition)
    members = positive.to(values.dtype)
    count_positive = _group_sum(members, partition)
    count_negative = _group_sum(1 - members, partition)
    sum_positive = _group_sum(torch.where(positive, values, 0), partition)
    sum_negative = _group_sum(torch.where(positive, 0, values), partition)
    mean_positive = sum_positive / count_positive.clamp(min=1)
    mean_negative = sum_negative / count_negative.clamp(min=1)
    if isinstance(partition, Labels):
        index = partition.index.to(values.device)
        return mean_positive[index], mean_negative[index]
    return mean_positive, mean_negative


def _group_sum(values: Tensor, partition: Partition) -> Tensor:
    """Sums over each group: reduced dimensions stay with size 1; labels give one flat entry a group."""
    if isinstance(partition, Tensor):
        partition = Labels.of(partition)
    if isinstance(partition, Labels):
        if partition.index.shape != values.shape:
            raise SignwiseError(
                f"the partition tensor has shape {tuple(partition.index.shape)}, "
                f"but the latent has shape {tuple(values.shape)}"
            )
        zeros = values.new_zeros(partition.count)
        return zeros.index_add(0, partition.index.to(values.device).flatten(), values.flatten())
    reduced = _reduced_dimensions(values, partition)
    return values.sum(dim=reduced, keepdim=True)


def _reduced_dimensions(latent: Tensor, partition: int | tuple[int, ...] | None) -> tuple[int, ...]:
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
    return reduced


def _scalar(name: str, value: float | Tensor, like: Tensor, upper: float) -> Tensor:
    """A 0-dim tensor beside the latent. Tensors are not inspected: that would wait for the device each step."""
    if isinstance(value, Tensor):
        return value.detach().to(device=like.device, dtype=like.dtype)
    if not 0 <= value <= upper:
        raise SignwiseError(f"{name} must be in [0, {upper:g}], got {value}")
    return torch.tensor(value, device=like.device, dtype=like.dtype)
