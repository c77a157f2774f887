"""Files whose hash is known in advance, so that a wrong, truncated or foreign file is rejected before it is used.

A folder may also hold a data set of the user's own, for example a subset of a published one or one with cleaned labels.
A ``SHA256SUMS`` file, as ``sha256sum * > SHA256SUMS`` writes it, marks such a folder. The files that it lists are
checked against it instead of the publisher's hashes, and may hold any number of images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from signwise.errors import DataError

SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class KnownFile:
    """The name of a file and the hash of its content.

    Args:
        name: the name, without a folder.
        digest: the publisher's hash of the content, as ``"md5:..."`` or ``"sha256:..."``.
        size: the length of the content in bytes, where known.

    Example:
        >>> KnownFile("a.bin", "md5:900150983cd24fb0d6963f7d28e17f72", 3).matches(b"abc")
        True
    """

    name: str
    digest: str
    size: int | None = None

    def matches(self, content: bytes) -> bool:
        """Whether ``content`` has the size and the hash of this file."""
        return self.size in (None, len(content)) and digest(content, self.digest.partition(":")[0]) == self.digest

    def __str__(self) -> str:
        return f"{self.size:,} bytes, {self.digest}" if self.size is not None else self.digest

    def read(self, path: Path, decompress: Callable[[bytes], bytes] = bytes) -> bytes:
        """Read ``path``, check that it is this file, and return its content.

        Args:
            path: the file on disk, possibly compressed.
            decompress: turns the bytes on disk into the content.

        Raises:
            DataError: if the file cannot be read, or its hash is neither the publisher's nor the listed one.
        """
        try:
            stored = path.read_bytes()
            listed = listed_digests(path.parent).get(path.name)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        if listed is not None:
            if digest(stored, "sha256") != listed:
                raise DataError(_mismatch(path, stored, f"{listed} as listed in {SUMS} beside it"))
            return decompress(stored)
        content = decompress(stored)
        if not self.matches(content):
            way_out = f"remove it and get it again, or list it in {path.parent / SUMS} if it is meant to differ"
            raise DataError(f"{_mismatch(path, content, str(self), self.digest.partition(':')[0])}; {way_out}")
        return content


def digest(content: bytes, algorithm: str) -> str:
    """The hash of ``content``, prefixed with its algorithm.

    Example:
        >>> digest(b"abc", "md5")
        'md5:900150983cd24fb0d6963f7d28e17f72'
    """
    return f"{algorithm}:{hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()}"


def listed_digests(folder: Path) -> dict[str, str]:
    """The hashes in the ``SHA256SUMS`` of ``folder``, by file name; empty without such a file."""
    sums = folder / SUMS
    if not sums.is_file():
        return {}
    listed = {}
    for line in sums.read_text(encoding="utf-8").splitlines():
        hexadecimal, separator, name = line.partition(" ")
        if len(hexadecimal) != 64 or not separator:
            raise DataError(f"{sums} must have lines of a sha256 and a name, as sha256sum writes them; got {line!r}")
        # The character before the name is the mode in which sha256sum read the file: a space or an asterisk.
        listed[name[1:]] = f"sha256:{hexadecimal.lower()}"
    return listed


def _mismatch(path: Path, content: bytes, expected: str, algorithm: str = "sha256") -> str:
    found = f"{len(content):,} bytes, {digest(content, algorithm)}"
    return f"{path} is not the file that was expected: found {found}; expected {expected}"
