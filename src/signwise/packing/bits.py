"""Signs as bits for tensors on any device, in the layout of :mod:`signwise.program.bits`."""

from __future__ import annotations

import torch
from torch import Tensor

from signwise.program import bits as layout


def pack_signs(signs: Tensor) -> Tensor:
    """Rows of -1 and +1 to rows of bytes; see :func:`signwise.program.bits.pack_signs`.

    Args:
        signs: ``(rows, ...)``; everything after the first dimension is one row.

    Returns:
        uint8 of shape ``(rows, ceil(n / 8))`` on the same device, where n is the length of a row.

    Example:
        >>> pack_signs(torch.tensor([[1, -1, -1, 1, 1, -1, -1, -1, 1]]))
        tensor([[25,  1]], dtype=torch.uint8)
    """
    return torch.from_numpy(layout.pack_signs(signs.detach().to("cpu", torch.int8).numpy())).to(signs.device)


def unpack_signs(bits: Tensor, shape: torch.Size | tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """The inverse of :func:`pack_signs`.

    Args:
        bits: uint8 of shape ``(rows, ceil(n / 8))``.
        shape: ``(rows, ...)``, the shape of the signs.
        dtype: of the result.

    Returns:
        -1 and +1 in ``shape``.

    Example:
        >>> unpack_signs(torch.tensor([[25, 1]], dtype=torch.uint8), (1, 3, 3))[0]
        tensor([[ 1., -1., -1.],
                [ 1.,  1., -1.],
                [-1., -1.,  1.]])
    """
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    ones = (bits.unsqueeze(2) >> places) & 1  # (rows, bytes) -> (rows, bytes, 8)
    terms = torch.Size(shape[1:]).numel()
    return (ones.flatten(1)[:, :terms].to(dtype) * 2 - 1).reshape(shape)
