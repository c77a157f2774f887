"""How many bytes a model takes now, and how many in its packed file, layer by layer.

What a packed file holds of a layer (its header aside):

    binary layer      filters x ceil(weights of a filter / 8) bytes, and 4 bytes a filter for a scale and for a bias
    float layer       4 bytes a weight, and 4 bytes a filter for a bias
    batch norm        8 bytes a channel: it becomes one factor and one offset

A batch norm right after a layer takes that layer's scale and bias into its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from signwise.convert import LAYERS_WITH_WEIGHTS
from signwise.layers import BinaryLayer

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@dataclass(frozen=True)
class LayerSize:
    """One layer of the summary; ``bits`` are those of a weight in the packed file."""

    name: str
    kind: str
    shape: tuple[int, ...]
    weights: int
    bits: int
    bytes_now: int
    bytes_packed: int


@dataclass(frozen=True)
class Summary:
    """The sizes of a model's layers; printing it gives a table."""

    layers: tuple[LayerSize, ...]

    @property
    def weights(self) -> int:
        return sum(layer.weights for layer in self.layers)

    @property
    def binary_weights(self) -> int:
        # A binary layer's bias is one of its weights, but stays float.
        return sum(math.prod(layer.shape) for layer in self.layers if layer.bits == 1)

    @property
    def bytes_now(self) -> int:
        return sum(layer.bytes_now for layer in self.layers)

    @property
    def bytes_packed(self) -> int:
        return sum(layer.bytes_packed for layer in self.layers)

    def __str__(self) -> str:
        total = LayerSize("total", "", (), self.weights, 0, self.bytes_now, self.bytes_packed)
        rows = [("layer", "kind", "shape", "weights", "bits", "bytes now", "packed")]
        for layer in (*self.layers, total):
            shape = "x".join(map(str, layer.shape))
            numbers = (f"{layer.weights:,}", str(layer.bits or ""), f"{layer.bytes_now:,}", f"{layer.bytes_packed:,}")
            rows.append((layer.name, layer.kind, shape, *numbers))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = []
        for row in rows:
            words = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
            numbers_right = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
            lines.append("  ".join((*words, *numbers_right)))
        ratio = self.bytes_now / max(self.bytes_packed, 1)
        lines.append(f"{self.binary_weights:,} of {self.weights:,} weights take one bit: {ratio:.1f} times smaller")
        return "\n".join(lines)


def summary(model: nn.Module) -> Summary:
    """Shape, bits and bytes of every layer of ``model``, now and packed; the total is that of the ``.sw`` file.

    Example:
        >>> from signwise.convert import binarize_
        >>> model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 10))
        >>> _ = binarize_(model, skip="1")
        >>> sizes = summary(model)
        >>> sizes.bytes_now, sizes.bytes_packed
        (19240, 3368)
    """
    # Registration order stands in for the order of computation; layers without tensors do not come between.
    owners = [(name, module) for name, module in model.named_modules() if _own_tensors(module)]
    rows = []
    for position, (name, module) in enumerate(owners):
        follower = owners[position + 1][1] if position + 1 < len(owners) else None
        rows.append(_layer_size(name or "(the model)", module, follower))
    return Summary(tuple(rows))


def _layer_size(name: str, module: nn.Module, follower: nn.Module | None) -> LayerSize:
    tensors = _own_tensors(module)
    bytes_now = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    parameters = sum(tensor.numel() for tensor in tensors.values() if isinstance(tensor, nn.Parameter))
    bits, bytes_packed = 32, 4 * parameters
    shape: tuple[int, ...] = tuple(tensors["weight"].shape) if "weight" in tensors else ()
    if isinstance(module, _NORMS):
        shape, bytes_packed = (module.num_features,), 8 * module.num_features
    elif isinstance(module, LAYERS_WITH_WEIGHTS):
        filters = module.out_features if isinstance(module, nn.Linear) else module.out_channels
        absorbed = isinstance(follower, _NORMS) and follower.num_features == filters
        vectors = 0 if absorbed or module.bias is None else 1
        bytes_packed = 4 * module.weight.numel()
        if isinstance(module, BinaryLayer):
            bits, bytes_packed = 1, filters * -(-module.weight.numel() // filters // 8)
            vectors += 0 if absorbed or module.deployed().scale is None else 1
        bytes_packed += 4 * filters * vectors
    return LayerSize(name, type(module).__name__, shape, parameters, bits, bytes_now, bytes_packed)


def _own_tensors(module: nn.Module) -> dict[str, nn.Parameter]:
    """The tensors that this module itself, not one inside it, puts into the state dict."""
    prefixed = module.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in prefixed.items() if "." not in name}
