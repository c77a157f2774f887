"""PyTorch's operators as operations of a program: one function each, and the table that assigns them.

A translation gets the operator's arguments by the names of PyTorch's schema, with tensors replaced by what the compiler
knows of them. It refuses arguments that a program cannot express; operators outside the table are refused by name.

The functions are in translations/:

    layers.py       layers with weights, norms, embeddings
    elementwise.py  activations and arithmetic
    moves.py        views, permutations, parts, joins, padding
    pools.py        pools, resampling, reductions
    products.py     products of values, softmax, attention
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from signwise.compiler.translations.elementwise import ELEMENTWISE
from signwise.compiler.translations.layers import LAYERS
from signwise.compiler.translations.moves import MOVES
from signwise.compiler.translations.pools import POOLS
from signwise.compiler.translations.products import PRODUCTS

TRANSLATIONS: dict[str, Callable[..., Any]] = {**LAYERS, **ELEMENTWISE, **MOVES, **POOLS, **PRODUCTS}
