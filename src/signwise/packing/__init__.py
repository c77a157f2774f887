"""One bit a weight for any PyTorch model: packed layers, their operators, and the conversion."""

from __future__ import annotations

from signwise.packing.convert import PackReport, pack_
from signwise.packing.layers import PackedConv2d, PackedLayer, PackedLinear

__all__ = ["PackReport", "PackedConv2d", "PackedLayer", "PackedLinear", "pack_"]
