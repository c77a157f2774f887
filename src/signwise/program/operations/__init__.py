"""The operations of a program, grouped by what they do; each class defines everything about its operation.

To add one: write its class here (the docstring of :mod:`~signwise.program.operations.base` lists what it defines) and
add it to ``KINDS``; give it a number in ``csrc/signwise.h`` and a kernel; translate PyTorch's operator to it in
:mod:`signwise.compiler.translate`; test it against PyTorch.
"""

from __future__ import annotations

from signwise.program.operations.activations import Activation, PRelu, Sign
from signwise.program.operations.arithmetic import Arithmetic, Constant
from signwise.program.operations.base import (
    LARGEST_RANK,
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
    ValueType,
    check_choice,
    check_integer,
    check_sizes,
    positions,
)
from signwise.program.operations.elementwise import Add, Affine, Relu, Softmax
from signwise.program.operations.layers import LARGEST_TERMS, Conv, Dense, Weighted, pack_signs, unpack_signs
from signwise.program.operations.matrix import Attention, Embedding, Matmul
from signwise.program.operations.normalization import Normalize
from signwise.program.operations.pooling import AvgPool, GlobalPool, MaxPool, Pool
from signwise.program.operations.reduction import ArgMax, Reduce
from signwise.program.operations.resampling import AdaptivePool, Resize
from signwise.program.operations.shape import Concat, Expand, Flatten, Pad, PadChannels, Reshape, Slice, Transpose
from signwise.program.operations.transposed import ConvTranspose

__all__ = [
    "KINDS",
    "LARGEST_RANK",
    "LARGEST_SIZE",
    "LARGEST_TERMS",
    "LARGEST_WINDOW",
    "LIMITS",
    "TYPE_NUMBERS",
    "Activation",
    "AdaptivePool",
    "Add",
    "Affine",
    "ArgMax",
    "Arithmetic",
    "Array",
    "Attention",
    "AvgPool",
    "Concat",
    "Constant",
    "Conv",
    "ConvTranspose",
    "Dense",
    "Embedding",
    "Expand",
    "Flatten",
    "GlobalPool",
    "Matmul",
    "MaxPool",
    "Normalize",
    "Operation",
    "PRelu",
    "Pad",
    "PadChannels",
    "Padding",
    "Pair",
    "Pool",
    "Quantized",
    "Reduce",
    "Relu",
    "Reshape",
    "Resize",
    "Shape",
    "Sign",
    "Slice",
    "Softmax",
    "TensorSpec",
    "Tensors",
    "Transpose",
    "ValueType",
    "Weighted",
    "check_choice",
    "check_integer",
    "check_sizes",
    "pack_signs",
    "positions",
    "unpack_signs",
]

KINDS: dict[str, type[Operation]] = {
    operation.kind: operation
    for operation in (
        Conv, Dense, Affine, Relu, Add, MaxPool, AvgPool, GlobalPool, PadChannels, Flatten, Concat, Softmax,
        Activation, PRelu, Arithmetic, Constant, Matmul, Normalize, Transpose, Reshape, Slice, Pad, Resize, Reduce,
        AdaptivePool, Embedding, Attention, ArgMax, ConvTranspose, Expand, Sign,
    )
}  # fmt: skip
