"""Files whose hash is known in advance, so that a wrong, truncated or foreign file is rejected before it is used.

A folder may also hold a data set of the user's own, for example a subset of a published one or one with cleaned labels.
A ``SHA256SUMS`` file, as ``sha256sum * > SHA256SUMS`` writes it, marks such a folder. The files that it lists are
checked against it instead of the publisher's hashes, and may hold any number of images.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from signwise.errors import DataError

SUMS = "SHA256SUMS"
DECOMPRESSION_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, ImportError)  # the last: without bz2
_CHUNK = 1 << 20
_MOST_OF_ONES_OWN = 16  # a compressed file of the user's own may hold this many times the published bytes


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

    def read(self, path: Path, *, compressed: bool = False) -> bytes:
        """Read ``path``, check that it is this file, and return its content.

        Reading stops one byte after the known size, so that a small compressed file cannot fill the memory.

        Args:
            path: the file on disk.
            compressed: whether it may be compressed by gzip, xz or bzip2.

        Raises:
            DataError: if the file cannot be read, or its hash is neither the publisher's nor the listed one.
        """
        try:
            with path.open("rb") as file:
                listed = listed_digests(path.parent).get(path.name)
                if listed is not None:
                    _check_listed(path, file, listed)
                stream = decompressed(file) if compressed else file
                factor = 1 if listed is None else _MOST_OF_ONES_OWN if compressed else None
                most = None if self.size is None or factor is None else factor * self.size
                content = read_at_most(stream, None if most is None else most + 1)
        except DECOMPRESSION_ERRORS as error:
            raise DataError(f"{path} cannot be decompressed ({error}); expected {self}") from error
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
        if most is not None and len(content) > most:
            raise DataError(
                f"{path} is not the file that was expected: found more than {most:,} bytes; expected {self}"
            )
        if listed is None and not self.matches(content):
            found = f"{len(content):,} bytes, {digest(content, self.digest.partition(':')[0])}"
            raise DataError(
                f"{path} is not the file that was expected: found {found}; expected {self}; "
                f"remove it and get it again, or list it in {path.parent / SUMS} if it is meant to differ"
            )
        return content


def decompressed(file: IO[bytes]) -> IO[bytes]:
    """The content of a file that gzip, xz or bzip2 compressed; any other file as it is.

    Example:
        >>> import io
        >>> decompressed(io.BytesIO(gzip.compress(b"abc"))).read()
        b'abc'
    """
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if magic == b"\xfd7zXZ\0":
        return cast(IO[bytes], lzma.LZMAFile(file))
    if magic.startswith(b"BZh"):
        import bz2  # some Pythons are compiled without it, and few people need it

        return cast(IO[bytes], bz2.BZ2File(file))
    return file


def read_at_most(stream: IO[bytes], most: int | None) -> bytes:
    """Read ``most`` bytes, or to the end; memory grows with what is there, not with ``most``."""
    content = bytearray()
    while most is None or len(content) < most:
        try:
            chunk = stream.read(_CHUNK if most is None else min(_CHUNK, most - len(content)))
        except OSError as error:
            if error.errno is None:  # not from the system: bz2 reports damaged data in this way
                raise EOFError(str(error)) from error
            raise
        if not chunk:
            break
        content += chunk
    return bytes(content)


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


def _check_listed(path: Path, file: IO[bytes], listed: str) -> None:
    sha256, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        sha256.update(chunk)
        size += len(chunk)
    file.seek(0)
    if f"sha256:{sha256.hexdigest()}" != listed:
        raise DataError(
            f"{path} is not the file that was expected: found {size:,} bytes, sha256:{sha256.hexdigest()}; "
            f"expected {listed} as listed in {SUMS} beside it"
        )
