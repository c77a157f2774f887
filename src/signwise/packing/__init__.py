"""One bit per weight for any PyTorch model, which stays a PyTorch model.

layers.py      packed layers
pack.py        pack_ and load_packed_: the conversion, from a binary model or from a saved state dict
operators.py   torch.ops.signwise, which the layers call: native kernels, prepared once per layer and input shape
"""

from __future__ import annotations

from signwise.packing.layers import PackedConv2d, PackedLayer, PackedLinear
from signwise.packing.pack import PackReport, load_packed_, pack_

__all__ = ["PackReport", "PackedConv2d", "PackedLayer", "PackedLinear", "load_packed_", "pack_"]
