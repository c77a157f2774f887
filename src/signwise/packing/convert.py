"""Any model keeps its code: ``pack_`` turns its binary layers into packed ones, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from signwise.errors import SignwiseError
from signwise.layers import (
    BinaryConv1d,
    BinaryConv2d,
    BinaryConv3d,
    BinaryConvTranspose1d,
    BinaryConvTranspose2d,
    BinaryConvTranspose3d,
    BinaryLayer,
    BinaryLinear,
    binary_layers,
)
from signwise.methods import Deployed
from signwise.packing.bits import pack_bits
from signwise.packing.layers import (
    PackedConv1d,
    PackedConv2d,
    PackedConv3d,
    PackedConvTranspose1d,
    PackedConvTranspose2d,
    PackedConvTranspose3d,
    PackedLayer,
    PackedLinear,
)

PACKED_OF: dict[type[BinaryLayer], type[PackedLayer]] = {
    BinaryLinear: PackedLinear,
    BinaryConv1d: PackedConv1d,
    BinaryConv2d: PackedConv2d,
    BinaryConv3d: PackedConv3d,
    BinaryConvTranspose1d: PackedConvTranspose1d,
    BinaryConvTranspose2d: PackedConvTranspose2d,
    BinaryConvTranspose3d: PackedConvTranspose3d,
}


@dataclass(frozen=True)
class PackReport:
    """What ``pack_`` did; printing it gives one line."""

    layers: tuple[str, ...]
    weights: int
    bytes_before: int
    bytes_packed: int

    def __str__(self) -> str:
        sizes = f"{self.bytes_before:,} bytes became {self.bytes_packed:,}"
        return f"packed {len(self.layers)} layers with {self.weights:,} weights: {sizes}"


def pack_(model: nn.Module) -> PackReport:
    """Turn every binary layer into a packed one, in place, and the model into evaluation mode.

    The state dict then holds one bit a weight. To load it, build the model again in the same way, ``binarize_`` and
    ``pack_`` it, and call ``load_state_dict``.

    Args:
        model: any model; what is not binary stays as it is.

    Returns:
        A report of the layers and bytes.

    Example:
        >>> import torch, signwise as sw
        >>> model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
        >>> _ = sw.binarize_(model, skip=sw.last)
        >>> print(pack_(model))
        packed 1 layers with 1,024 weights: 4,096 bytes became 128
        >>> model(torch.zeros(1, 16)).shape
        torch.Size([1, 4])
    """
    layers = list(binary_layers(model))
    # All are looked at before any is changed: a model is packed as a whole or not at all.
    deployed = [_deployed(name, layer) for name, layer in layers]
    weights = bytes_before = bytes_packed = 0
    for (_, layer), (signs, scale) in zip(layers, deployed, strict=True):
        weights += signs.numel()
        bytes_before += layer.weight.numel() * layer.weight.element_size()
        packed: type[Any] = PACKED_OF[type(layer)]
        bits = pack_bits(signs)
        layer.__class__ = packed
        assert isinstance(layer, PackedLayer)
        layer.become_packed_(bits, scale)
        bytes_packed += bits.numel()
    model.eval()
    return PackReport(tuple(name for name, _ in layers), weights, bytes_before, bytes_packed)


def _deployed(name: str, layer: BinaryLayer) -> tuple[Any, Any]:
    where = name or "the model"
    if type(layer) not in PACKED_OF:
        raise SignwiseError(f"{where} is a {type(layer).__name__} with code of its own, which pack_ would lose")
    try:
        deployed: Deployed = layer.deployed()
    except SignwiseError as error:
        raise SignwiseError(f"{where}: {error}") from None
    return deployed.signs.detach(), None if deployed.scale is None else deployed.scale.detach()
