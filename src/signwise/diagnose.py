"""Is binarization going well? Degenerate groups, distance from ±1, how far latents move, and signs that flip.

A group with fewer than two weights of one sign passes no gradient to that side at α = 1: its latents can only decay. A
few such groups are harmless; many mean that a layer has lost part of its capacity.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from signwise.errors import SignwiseError
from signwise.layers import binary_layers
from signwise.methods.method import per_weight
from signwise.text import aligned
from signwise.transform import binary_sign, count_by_sign


@dataclass(frozen=True)
class LayerHealth:
    """The state of one binary layer.

    Args:
        name: the layer's name in the model.
        groups: number of groups.
        degenerate_groups: groups with fewer than two members on a side.
        positive_fraction: the fraction of weights with sign +1.
        error_mean: the mean of ||w| / s - 1| over the relaxed weights, where s is the scale per filter that
            ``GroupTransform(scale="mean")`` deploys, else 1; the output scale aside.
        error_max: its maximum.
    """

    name: str
    groups: int
    degenerate_groups: int
    positive_fraction: float
    error_mean: float
    error_max: float


class Health(list[LayerHealth]):
    """The layers in registration order; printing it gives a table."""

    def __str__(self) -> str:
        rows = [("layer", "groups", "degenerate", "positive", "mean error", "max error")]
        for layer in self:
            counts = (f"{layer.groups:,}", f"{layer.degenerate_groups:,}", f"{100 * layer.positive_fraction:.1f} %")
            rows.append((layer.name, *counts, f"{layer.error_mean:.2g}", f"{layer.error_max:.2g}"))
        return aligned(rows)


@torch.no_grad()
def health(model: nn.Module) -> Health:
    """The health of every binary layer, in registration order; print it for a table.

    Example:
        >>> import signwise as sw
        >>> model = nn.Sequential(nn.Linear(4, 2))
        >>> _ = model[0].weight.data.copy_(torch.tensor([[1.0, 2.0, -1.0, -2.0], [1.0, 2.0, 3.0, -1.0]]))
        >>> _ = sw.binarize_(model, skip=None)
        >>> [(layer.groups, layer.degenerate_groups) for layer in sw.health(model)]
        [(2, 1)]
    """
    rows = Health()
    for name, layer in binary_layers(model):
        latent = layer.filters_first(layer.weight)
        positive, negative = count_by_sign(layer.method.rows(latent), layer.method.groups)
        relaxed = layer.method.weight(latent, layer.state)
        scale = layer.method.deploy(latent, layer.state).scale if layer.method.blends_latent else None
        if scale is not None:
            relaxed = relaxed / per_weight(scale, relaxed).clamp_min(torch.finfo(scale.dtype).tiny)
        error = (relaxed.abs() - 1).abs().float()
        rows.append(
            LayerHealth(
                name=name,
                groups=positive.numel(),
                degenerate_groups=int(((positive < 2) | (negative < 2)).sum()),
                positive_fraction=float(positive.sum() / latent.numel()),
                error_mean=float(error.mean()),
                error_max=float(error.max()),
            )
        )
    return rows


def signs_of(model: nn.Module) -> dict[str, Tensor]:
    """A snapshot of the signs of every binary layer, one byte per weight, for :func:`flip_ratio`."""
    return {name: binary_sign(layer.weight).to(torch.int8) for name, layer in binary_layers(model)}


def flip_ratio(before: dict[str, Tensor], after: dict[str, Tensor]) -> dict[str, float]:
    """The fraction of signs in each layer that differ between two snapshots."""
    if before.keys() != after.keys():
        raise SignwiseError("flip_ratio needs two snapshots of the same layers")
    return {name: float((before[name] != after[name]).float().mean()) for name in before}


@torch.no_grad()
def relative_step(model: nn.Module, optimizer: Optimizer) -> dict[str, float]:
    """η‖∇φ‖ / ‖φ‖ for every binary layer that has a gradient: how far one SGD step turns its latents.

    Call it after ``backward``. Behind batch norm the gradient shrinks as the weights grow, so a layer of ±1 weights
    with small latents may move a hundred times less than its float counterpart at the same learning rate. Momentum
    multiplies the step by up to 1 / (1 - μ). Adam ignores the size of the gradient; there this number means nothing.

    Example:
        >>> import signwise as sw
        >>> model = nn.Sequential(nn.Linear(2, 2, bias=False))
        >>> _ = sw.binarize_(model, skip=None)
        >>> _ = model[0].weight.data.fill_(2.0)
        >>> model[0].weight.grad = torch.ones(2, 2)
        >>> relative_step(model, sw.SGDW(model.parameters(), lr=0.1))
        {'0': 0.05}
    """
    rates = {id(weight): float(group["lr"]) for group in optimizer.param_groups for weight in group["params"]}
    found = {}
    for name, layer in binary_layers(model):
        gradient = layer.weight.grad
        if gradient is not None and id(layer.weight) in rates:
            size = float(layer.weight.norm().clamp(min=1e-30))
            found[name] = round(rates[id(layer.weight)] * float(gradient.norm()) / size, 12)
    return found


def refuse_nonfinite(model: nn.Module) -> None:
    """Raise if a weight of the model is NaN or infinite, and name the layer: such weights must not be deployed."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise SignwiseError(
                f"{name} holds NaN or infinite values, so the model cannot be deployed; "
                "return to an earlier checkpoint, and lower the learning rate if it happens again"
            )
