"""Signs as bits, the one layout for files, kernels and packed PyTorch layers.

A row is one filter or neuron. Bit i of a row is its sign i, in memory order: 1 for +1, 0 for -1. The first sign is the
lowest bit of the first byte, and zero bits pad every row to whole bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError


def pack_signs(signs: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Rows of -1 and +1 to rows of bytes.

    Args:
        signs: ``(rows, ...)``; everything after the first dimension is one row, in memory order.

    Returns:
        uint8 of shape ``(rows, ceil(n / 8))``, where n is the length of a row.

    Example:
        >>> pack_signs(np.array([[1, -1, -1, 1, 1, -1, -1, -1, 1]])).tolist()
        [[25, 1]]
    """
    if not np.isin(signs, (-1, 1)).all():
        raise SignwiseError("only -1 and +1 can be packed to one bit")
    rows = signs.reshape(signs.shape[0], -1)  # (out, in, kh, kw) -> (out, n)
    return np.packbits(rows > 0, axis=1, bitorder="little")


def unpack_signs(packed: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
    """The inverse of :func:`pack_signs`.

    Args:
        packed: uint8 of shape ``(rows, ceil(n / 8))``.
        shape: ``(rows, ...)``, the shape of the signs.

    Returns:
        int8 of -1 and +1 in ``shape``.

    Example:
        >>> unpack_signs(np.array([[25, 1]], dtype=np.uint8), (1, 3, 3))[0].tolist()
        [[1, -1, -1], [1, 1, -1], [-1, -1, 1]]
    """
    terms = int(np.prod(shape[1:]))
    bits = np.unpackbits(packed, axis=1, count=terms, bitorder="little")
    return (bits.astype(np.int8) * 2 - 1).reshape(shape)
