"""IDX, the format of the MNIST files: a magic number, the sizes, the bytes.

    00 00 08 rank | rank sizes, 32 bits each, most significant byte first | the array of bytes
"""

from __future__ import annotations

import math
import struct

import numpy as np
import numpy.typing as npt

from signwise.errors import DataError

_UNSIGNED_BYTES = 0x08


def parse_idx(content: bytes, *, rank: int, source: str) -> npt.NDArray[np.uint8]:
    """The array of bytes that an IDX file holds.

    Args:
        content: the whole file, decompressed.
        rank: the number of dimensions that it must have: 1 for labels, 3 for images.
        source: the name of the file, for the error.

    Returns:
        A read-only array over ``content``.

    Raises:
        DataError: if it is not an IDX file of bytes of that rank, or not of the length that its header tells.

    Example:
        >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), rank=1, source="labels").tolist()
        [7, 9]
    """
    header = 4 + 4 * rank
    if len(content) < header:
        raise DataError(f"{source} is cut short: an IDX header of {header} bytes was expected, found {len(content)}")
    if content[:4] != bytes([0, 0, _UNSIGNED_BYTES, rank]):
        raise DataError(f"{source} is no IDX file of rank {rank}: it begins with {content[:4].hex(' ')}")
    shape = struct.unpack(f">{rank}I", content[4:header])
    expected = header + math.prod(shape)
    if len(content) != expected:
        sizes = " x ".join(str(size) for size in shape)
        raise DataError(f"{source} should have {expected:,} bytes for {sizes} values, found {len(content):,}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
