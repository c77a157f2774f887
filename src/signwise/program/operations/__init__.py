"""The operations of a program, grouped by what they do; each class defines everything about its operation.

To add one: write its class here (the docstring of :mod:`~signwise.program.operations.base` lists what it defines) and
add it to ``KINDS``; give it a number in ``csrc/signwise.h`` and a kernel; translate PyTorch's operator to it in
:mod:`signwise.compiler.translate`; test it against PyTorch.
"""

from __future__ import annotations

from signwise.program.operations.base import (
    LARGEST_SIZE,
    LARGEST_WINDOW,
    LIMITS,
    TYPE_NUMBERS,
    Array,
    Operation,
    Padding,
    Pair,
    Quantized,
    Shape,
    Tensors,
    TensorSpec,
    check_integer,
    positions,
)
from signwise.program.operations.elementwise import Add, Affine, Relu, Softmax
from signwise.program.operations.layers import LARGEST_TERMS, Conv, Dense, Weighted, pack_signs, unpack_signs
from signwise.program.operations.pooling import AvgPool, GlobalPool, MaxPool, Pool
from signwise.program.operations.shape import Concat, Flatten, PadChannels

__all__ = [
    "KINDS",
    "LARGEST_SIZE",
    "LARGEST_TERMS",
    "LARGEST_WINDOW",
    "LIMITS",
    "TYPE_NUMBERS",
    "Add",
    "Affine",
    "Array",
    "AvgPool",
    "Concat",
    "Conv",
    "Dense",
    "Flatten",
    "GlobalPool",
    "MaxPool",
    "Operation",
    "PadChannels",
    "Padding",
    "Pair",
    "Pool",
    "Quantized",
    "Relu",
    "Shape",
    "Softmax",
    "TensorSpec",
    "Tensors",
    "Weighted",
    "check_integer",
    "pack_signs",
    "positions",
    "unpack_signs",
]

KINDS: dict[str, type[Operation]] = {
    operation.kind: operation
    for operation in (
        Conv, Dense, Affine, Relu, Add, MaxPool, AvgPool, GlobalPool, PadChannels, Flatten, Concat, Softmax,
    )
}  # fmt: skip
