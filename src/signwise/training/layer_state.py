"""The state of a binary layer, small enough to be recorded each epoch: what the paper's figure of a layer shows.

Histograms of the latent weights φ, of the relaxed weights w_α and the count of each sign; the minimum, mean and
maximum of w_α; α and ζ.
"""

from __future__ import annotations

import fnmatch
from typing import Any

import torch
from torch import Tensor, nn

from signwise.errors import SignwiseError
from signwise.layers import BinaryLayer, binary_layers

_BINS = 64


def watched_layers(network: nn.Module, patterns: tuple[str, ...]) -> dict[str, BinaryLayer]:
    """The binary layers whose names match; without patterns, the one in the middle of the network.

    Raises:
        SignwiseError: a pattern matches no binary layer.
    """
    layers = dict(binary_layers(network))
    if not patterns:
        names = list(layers)[len(layers) // 2 :][:1]
        return {name: layers[name] for name in names}
    chosen: dict[str, BinaryLayer] = {}
    for pattern in patterns:
        names = fnmatch.filter(layers, pattern)
        if not names:
            raise SignwiseError(f"--watch {pattern} matches no binary layer; there are {', '.join(layers) or 'none'}")
        chosen |= {name: layers[name] for name in names}
    return chosen


def _histogram(values: Tensor) -> dict[str, Any]:
    low, high = float(values.min()), float(values.max())
    counts = torch.histc(values.float(), _BINS, low, high)
    return {"low": low, "high": high, "counts": [int(count) for count in counts.tolist()]}


@torch.no_grad()
def layer_state(name: str, layer: BinaryLayer, epoch: int, step: int) -> dict[str, Any]:
    """One line of ``state.jsonl``."""
    latent, relaxed = layer.weight.detach(), layer.relaxed_weight()
    positive = int((latent > 0).sum())
    spread = {"min": float(relaxed.min()), "mean": float(relaxed.mean()), "max": float(relaxed.max())}
    return {
        "epoch": epoch,
        "step": step,
        "layer": name,
        "alpha": float(layer.alpha),
        "zeta": float(layer.zeta),
        "latent": _histogram(latent),
        "relaxed": _histogram(relaxed) | spread,
        "signs": {"negative": latent.numel() - positive, "positive": positive},
    }
