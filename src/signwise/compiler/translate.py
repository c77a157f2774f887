"""PyTorch's operators as operations of a program: one function each, and the table that assigns them.

A translation gets the operator's arguments by the names of PyTorch's schema, with tensors replaced by what the compiler
knows of them. It refuses arguments that a program cannot express; operators outside the tables are refused by name.

The functions are in translations/:

    layers.py       layers with weights, norms, embeddings
    elementwise.py  activations, arithmetic, conditions
    functions.py    functions that take several operations: rounding, hyperbolic functions, statistics, distances
    moves.py        views, permutations, parts, joins, padding
    indices.py      numbers picked by indices, constant or computed
    pools.py        pools, windows, resampling, reductions
    products.py     products of values, sums over named dimensions, softmax, attention

PyTorch itself takes the operators of ``DECOMPOSED`` apart into operators of the table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table

from signwise.compiler.translations.elementwise import ELEMENTWISE
from signwise.compiler.translations.functions import FUNCTIONS
from signwise.compiler.translations.indices import INDICES
from signwise.compiler.translations.layers import LAYERS
from signwise.compiler.translations.moves import MOVES
from signwise.compiler.translations.pools import POOLS
from signwise.compiler.translations.products import PRODUCTS

TRANSLATIONS: dict[str, Callable[..., Any]] = {
    **LAYERS, **ELEMENTWISE, **FUNCTIONS, **MOVES, **INDICES, **POOLS, **PRODUCTS,
}  # fmt: skip

# Operators whose result depends on the shape of this argument, but not on its numbers.
SHAPE_ALONE = {
    **{f"aten.new_{name}.default": "self" for name in ("zeros", "ones", "full", "empty")},
    **{f"aten.{name}_like.default": "self" for name in ("zeros", "ones", "full", "empty")},
    **{f"aten.{name}": "self" for name in ("fill.Scalar", "fill.Tensor", "copy.default")},
}

DECOMPOSED = {
    f"aten.{name}"
    for name in (
        "lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input", "lstm_cell.default", "gru_cell.default",
        "rnn_tanh_cell.default", "rnn_relu_cell.default", "addcmul.default", "addcdiv.default", "lerp.Scalar",
        "lerp.Tensor", "baddbmm.default", "hstack.default", "dstack.default", "column_stack.default",
        "atleast_1d.Sequence", "atleast_3d.Sequence", "tile.default", "rot90.default", "tensordot.default",
        "inner.default", "linalg_vecdot.default", "cross.default", "linalg_cross.default",
        "repeat_interleave.self_int", "diff.default", "pairwise_distance.default", "tril.default", "triu.default",
        "threshold.default", "hardshrink.default", "diag_embed.default", "rad2deg.default", "deg2rad.default",
        "logit.default", "sinc.default", "mse_loss.default", "l1_loss.default", "smooth_l1_loss.default",
        "huber_loss.default", "binary_cross_entropy_with_logits.default", "broadcast_tensors.default",
        "aminmax.default", "all.dim", "any.dim", "any.dims", "count_nonzero.default", "count_nonzero.dim_IntList",
        "index_select.default", "norm.ScalarOpt_dim", "true_divide.Tensor",
    )
}  # fmt: skip


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """What ``run_decompositions`` replaces each operator of ``DECOMPOSED`` by."""
    known: dict[Any, Callable[..., Any]] = {
        **decomposition_table,
        **dict(torch.export.default_decompositions().items()),
    }
    return {operator: made_of for operator, made_of in known.items() if str(operator) in DECOMPOSED}
