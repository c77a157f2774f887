"""A model's evaluation form, with binary layers turned into plain ones whose weights are the signs."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from signwise.errors import SignwiseError
from signwise.layers import BINARY_OF, binary_layers

PLAIN_OF: dict[type[nn.Module], type[nn.Module]] = {binary: plain for plain, binary in BINARY_OF.items()}


def prepare(model: nn.Module) -> tuple[nn.Module, dict[str, Tensor | None]]:
    """A copy of the model to read the program from; the model itself stays as it is.

    Args:
        model: any model, in training or evaluation mode, on any device.

    Returns:
        The copy, on the CPU, in float32 and evaluation mode, and for the name of each binary weight its scale per
        filter, or ``None`` where there is none.
    """
    copied = copy.deepcopy(model).to(device="cpu", dtype=torch.float32).eval().requires_grad_(False)
    scales: dict[str, Tensor | None] = {}
    for name, layer in list(binary_layers(copied)):
        where = name or "the model"
        if type(layer) not in PLAIN_OF:
            known = ", ".join(sorted(binary.__name__ for binary in PLAIN_OF))
            raise SignwiseError(f"{where} is a {type(layer).__name__} with code of its own; compile knows {known}")
        try:
            deployed = layer.deployed()
        except SignwiseError as error:
            raise SignwiseError(f"{where}: {error}") from None
        layer.weight = nn.Parameter(deployed.signs, requires_grad=False)
        scales[f"{name}.weight" if name else "weight"] = deployed.scale
        # The inverse of what binarize_ does: every parameter, hook and reference stays where it is.
        plain: type[Any] = PLAIN_OF[type(layer)]
        layer.__class__ = plain
    return copied, scales
