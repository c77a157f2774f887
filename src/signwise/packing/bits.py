"""Signs as bits, for tensors on any device: the layout of :mod:`signwise.program.bits`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def pack_bits(signs: Tensor) -> Tensor:
    """Rows of -1 and +1 to rows of bytes, the first sign in the lowest bit, padded with zeros.

    Args:
        signs: ``(rows, ...)``; everything after the first dimension is one row.

    Returns:
        uint8 of shape ``(rows, ceil(n / 8))``, n being the length of a row.

    Example:
        >>> pack_bits(torch.tensor([[1, -1, -1, 1, 1, -1, -1, -1, 1]]))
        tensor([[25,  1]], dtype=torch.uint8)
    """
    rows = (signs.flatten(1) > 0).to(torch.uint8)  # (out, in, kh, kw) -> (out, n)
    eights = F.pad(rows, (0, -rows.shape[1] % 8)).view(rows.shape[0], -1, 8)
    return torch.sum(eights << _places(signs.device), dim=2, dtype=torch.uint8)


def unpack_bits(bits: Tensor, shape: torch.Size | tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """The inverse of :func:`pack_bits`.

    Args:
        bits: uint8 of shape ``(rows, ceil(n / 8))``.
        shape: ``(rows, ...)``, of the signs.
        dtype: of the result.

    Returns:
        -1 and +1 in ``shape``.

    Example:
        >>> unpack_bits(torch.tensor([[25, 1]], dtype=torch.uint8), (1, 3, 3))[0]
        tensor([[ 1., -1., -1.],
                [ 1.,  1., -1.],
                [-1., -1.,  1.]])
    """
    ones = (bits.unsqueeze(2) >> _places(bits.device)) & 1  # (rows, bytes) -> (rows, bytes, 8)
    terms = torch.Size(shape[1:]).numel()
    return (ones.flatten(1)[:, :terms].to(dtype) * 2 - 1).reshape(shape)


def _places(device: torch.device) -> Tensor:
    return torch.arange(8, dtype=torch.uint8, device=device)
