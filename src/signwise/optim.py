"""SGDW: momentum SGD with decoupled weight decay, the optimizer of the paper's experiments.

    v ← μ v + g
    θ ← θ - lr · v - wd · θ             or θ ← θ - lr · (g + μ v) - wd · θ with Nesterov's momentum

The decay bypasses the momentum, and it is *not* multiplied by the learning rate: the paper's values of wd (1e-3, 5e-4)
mean nothing otherwise. A schedule that reduces both multiplies ``lr`` and ``weight_decay`` of each group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from signwise.errors import SignwiseError


def param_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two parameter groups: the weights of layers with decay; biases, norms, embeddings and tables without.

    Decay would pull embeddings, position tables and class tokens to zero where no gradient pushes back. A weight that
    an embedding shares with a layer counts as an embedding.

    Example:
        >>> groups = param_groups(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), weight_decay=1e-3)
        >>> [(len(group["params"]), group["weight_decay"]) for group in groups]
        [(1, 0.001), (3, 0.0)]
    """
    decayed: dict[int, bool] = {}
    for name, module in model.named_modules():
        for short, parameter in module._parameters.items():
            if parameter is not None:
                decays = _decays(module, f"{name}.{short}", parameter)
                decayed[id(parameter)] = decays and decayed.get(id(parameter), True)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [weight for weight in parameters if decayed[id(weight)]], "weight_decay": weight_decay},
        {"params": [weight for weight in parameters if not decayed[id(weight)]], "weight_decay": 0.0},
    ]


def _decays(module: nn.Module, name: str, parameter: Tensor) -> bool:
    if parameter.dim() < 2 or isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return False
    if "norm" in type(module).__name__.lower():
        return False
    # A layer's weight, in_proj_weight, weight_ih_l0, parametrizations.weight.original: but no table, token or query.
    return "weight" in ".".join(name.split(".")[-2:])


def initializes_state(optimizer: Optimizer) -> bool:
    """Whether the current step only creates the optimizer's state: lr and all gradients are 0.

    ``torch.distributed.checkpoint`` takes such a step before it loads a state. It is no step of the training.
    """
    if any(float(group["lr"]) != 0 for group in optimizer.param_groups):
        return False
    gradients = [weight.grad for group in optimizer.param_groups for weight in group["params"]]
    # A sharded gradient (DTensor) is looked at where it is, without communication.
    local = [getattr(gradient, "to_local", lambda gradient=gradient: gradient)() for gradient in gradients]
    return all(gradient is None or not bool(gradient.any()) for gradient in local)


class SGDW(Optimizer):
    """Momentum SGD with decoupled weight decay.

    Args:
        params: parameters or parameter groups, e.g. from ``param_groups``.
        lr: learning rate.
        momentum: μ in [0, 1).
        weight_decay: wd, the fraction of each weight that one step removes.
        nesterov: Nesterov's form of momentum.

    Reference:
        I. Loshchilov, F. Hutter, Decoupled Weight Decay Regularization, ICLR 2019 (algorithm 1, where η_t is
        the schedule's factor on lr and wd).

    Example:
        >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = SGDW([weight], lr=0.1, momentum=0.9, weight_decay=0.01)
        >>> weight.grad = torch.tensor([2.0])
        >>> _ = optimizer.step()
        >>> round(weight.item(), 6)
        0.79
    """

    decay_ignores_lr = True
    """The step does not multiply weight decay by lr, so a schedule must scale both; see ``StepDecay.apply_``."""

    def __init__(
        self, params: Any, lr: float, momentum: float = 0.9, weight_decay: float = 0.0, *, nesterov: bool = False
    ) -> None:
        if not 0 <= lr < float("inf"):
            raise SignwiseError(f"lr must be at least 0 and finite, got {lr}")
        if not 0 <= momentum < 1:
            raise SignwiseError(f"momentum must be in [0, 1), got {momentum}")
        if not 0 <= weight_decay < 1:
            raise SignwiseError(f"weight_decay must be in [0, 1), got {weight_decay}")
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        decays = not initializes_state(self)
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            gradients = [weight.grad for weight in weights]
            velocities = [self._velocity(weight) for weight in weights]
            # One fused call over all tensors of the group instead of a Python loop over the layers.
            torch._foreach_mul_(velocities, group["momentum"])
            torch._foreach_add_(velocities, gradients)
            if decays and group["weight_decay"] != 0:
                torch._foreach_mul_(weights, 1 - group["weight_decay"])
            # A state dict from before there was Nesterov's form has no word on it.
            moves = velocities
            if group.get("nesterov", False):
                moves = list(torch._foreach_add(gradients, velocities, alpha=group["momentum"]))
            torch._foreach_add_(weights, moves, alpha=-group["lr"])
        return loss

    def _velocity(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        velocity: Tensor = state["momentum_buffer"]
        return velocity
