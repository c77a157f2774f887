"""When the loss is no longer a number: where it began, and what to do about it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from signwise.errors import SignwiseError


class DivergenceError(SignwiseError):
    """Training has diverged: the loss is NaN or infinite."""


def _is_finite(value: object) -> bool:
    return not isinstance(value, Tensor) or bool(torch.isfinite(value).all())


@torch.no_grad()
def first_bad_layer(network: nn.Module, images: Tensor) -> str:
    """The first layer, in the order of the forward pass, that makes something other than numbers, and how."""
    found: list[str] = []

    def look(name: str, module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        if found or _is_finite(output):
            return
        bad_weights = [key for key, value in module.named_parameters(recurse=False) if not _is_finite(value)]
        if bad_weights:
            found.append(f"the {bad_weights[0]} of layer {name}")
        elif all(_is_finite(value) for value in inputs):
            found.append(f"the output of layer {name}")

    if not _is_finite(images):
        return "the images themselves"
    # The running statistics of batch norm are not touched by looking.
    buffers = [(buffer, buffer.clone()) for buffer in network.buffers()]
    hooks = [
        module.register_forward_hook(lambda module, inputs, output, name=name: look(name, module, inputs, output))
        for name, module in network.named_modules()
        if not any(module.children())
    ]
    try:
        network(images)
    finally:
        for hook in hooks:
            hook.remove()
        for buffer, before in buffers:
            buffer.copy_(before)
    return found[0] if found else "the loss itself"


def divergence(
    step: int, epoch: int, loss: float, network: nn.Module, images: Tensor, learning_rate: float
) -> DivergenceError:
    """The error that names step, layer and way out."""
    return DivergenceError(
        f"the loss is {loss} at step {step} (epoch {epoch}): {first_bad_layer(network, images)} is not finite; "
        f"try a lower learning rate (--lr, now {learning_rate:g}) or a longer warm-up (--warmup-epochs). "
        "The last checkpoint is from before it happened"
    )
