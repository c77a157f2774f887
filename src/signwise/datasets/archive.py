"""Archives: the expected members of a tar file, and nothing else.

The reader here knows only what those members need. tarfile would follow links, sparse maps and extended headers that an
archive declares, before any hash is checked.

512 bytes of header (name, size, type, checksum) | the content, padded to a multiple of 512 | the next header ...
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from signwise.atomic import atomic_write
from signwise.datasets.download import Download, ProgressCallback
from signwise.datasets.known_file import DECOMPRESSION_ERRORS, KnownFile, decompressed, read_at_most
from signwise.errors import DataError

_BLOCK = 512
_REGULAR = (b"0", b"\0", b"7")
_MOST_OF_OTHERS = 64 << 20  # bytes of members that are not expected


@dataclass(frozen=True, kw_only=True)
class Archive:
    """Selected members of a tar file.

    Args:
        folder: the folder of the members, in the archive and on disk.
        download: the archive.
        members: the files to extract; the rest is ignored.
    """

    folder: str
    download: Download
    members: tuple[KnownFile, ...]

    def fetch(self, folder: Path, progress: ProgressCallback) -> None:
        archive = folder / self.download.name
        # Use an archive that is already there, and keep it: it may be the user's own. Its members are checked anyway.
        if archive.exists():
            unpack(archive, folder / self.folder, self.members)
        else:
            self.download.to(archive, progress)
            unpack(archive, folder / self.folder, self.members)
            archive.unlink()


def unpack(archive: Path, folder: Path, members: tuple[KnownFile, ...]) -> None:
    """Extract ``members`` of a tar file to ``folder``, each atomically.

    Only regular files called ``NAME_OF_FOLDER/NAME`` with the known size and hash are extracted; the archive has no
    influence on where anything is written. Reading stops at the last of them, and at twice their known size and 64 MiB.

    Args:
        archive: the tar file, as it is or compressed by gzip, xz or bzip2.
        folder: the target; the folder in the archive has the same name.
        members: the files to extract.

    Raises:
        DataError: if the archive is damaged, or a member is missing or not the known one.
    """
    wanted = {PurePosixPath(folder.name, file.name): file for file in members}
    most = 2 * sum(file.size or 0 for file in members) + _MOST_OF_OTHERS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with archive.open("rb") as stored:
            tar = _Tar(decompressed(stored), most)
            for member in tar.members():
                file = wanted.pop(member.name, None)
                if file is None:
                    continue
                # The size first: it bounds what is read.
                is_plausible = member.is_regular and file.size in (None, member.size)
                content = tar.read(member) if is_plausible else b""
                if not is_plausible or not file.matches(content):
                    raise DataError(f"{archive}: {member.name} is not the file that was expected, {file}")
                with atomic_write(folder / file.name) as target:
                    target.write(content)
                if not wanted:
                    return
    except (_DamagedError, MemoryError, *DECOMPRESSION_ERRORS) as error:
        raise DataError(f"{archive} is a damaged archive ({error}): remove it and get it again") from error
    except OSError as error:
        raise DataError(f"{archive} cannot be unpacked to {folder}: {error.strerror or error}") from error
    raise DataError(f"{archive} has no {', '.join(map(str, wanted))}")


class _DamagedError(Exception):
    """The archive is not what a tar program writes."""


@dataclass(frozen=True)
class _Member:
    """What a header says about the bytes that follow it."""

    name: PurePosixPath
    size: int
    is_regular: bool


class _Tar:
    """Reads a tar file from its beginning to its end, up to ``most`` bytes.

    Extended headers, which may rename or resize the member after them, are skipped like any other member: the expected
    members have short names and known sizes.
    """

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._left = stream, most
        self._unread = 0  # bytes until the next header

    def members(self) -> Iterator[_Member]:
        count = 0
        while header := self._take(_BLOCK, may_end=count > 0):
            if header == bytes(_BLOCK):
                break
            count += 1
            member = _parse(header)
            self._unread = -(-member.size // _BLOCK) * _BLOCK
            yield member
            self._check(self._unread)
            while self._unread:
                self._unread -= len(self._take(min(self._unread, 1 << 20)))

    def read(self, member: _Member) -> bytes:
        """The content of the member that came last."""
        content = self._take(member.size)
        self._unread -= member.size
        return content

    def _check(self, count: int) -> None:
        if count > self._left:
            raise _DamagedError("it holds far more than the expected files")

    def _take(self, count: int, *, may_end: bool = False) -> bytes:
        self._check(count)
        content = read_at_most(self._stream, count)
        self._left -= len(content)
        if len(content) < count and (content or not may_end):
            raise _DamagedError("it is cut short")
        return content


def _parse(header: bytes) -> _Member:
    # The sum of all bytes, with blanks in the place of the sum itself.
    if _octal(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * ord(" "):
        raise _DamagedError("a header has a wrong checksum")
    name = _until_zero(header[:100])
    if header[257:265] == b"ustar\x0000":
        prefix = _until_zero(header[345:500])
        name = f"{prefix}/{name}" if prefix else name
    return _Member(PurePosixPath(name), _octal(header[124:136]), header[156:157] in _REGULAR)


def _until_zero(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _octal(field: bytes) -> int:
    if field[0] == 0x80:  # GNU's form of large numbers; 0xff would be a negative one
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if digits.strip(b"01234567"):
        raise _DamagedError("a header has a number that is not octal")
    return int(digits or b"0", 8)
