"""Downloads: resumable, and checked before they get their name.

The bytes go to ``NAME.part``. A broken connection resumes where it stopped, in the same run or a later one, through an
HTTP range request; a server without ranges is read from the start. Only a file with the right hash is renamed to
``NAME``. A `Source` fetches all files of a data set, either one by one or from an archive.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol, TextIO

from signwise.atomic import atomic_write
from signwise.datasets.known_file import KnownFile
from signwise.errors import DataError

_CHUNK = 1 << 18
_TIMEOUT = 30.0  # seconds without a byte
_ATTEMPTS = 5  # consecutive connections without a new byte
_BAR_WIDTH = 30

ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of a file, its bytes so far, and its total bytes."""


@dataclass(frozen=True)
class Download:
    """A published file.

    Args:
        address: the URL.
        size: the length in bytes.
        sha256: the hash, in hexadecimal.
    """

    address: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        return self.address.rpartition("/")[2]

    def to(self, target: Path, progress: ProgressCallback, *, pause: float = 1.0) -> None:
        """Download the file to ``target``, resuming from ``target.part`` if an earlier attempt left one.

        Args:
            target: the file to write; its folder must exist.
            progress: called after each chunk.
            pause: seconds to wait after an attempt without progress; doubles with each further one.

        Raises:
            DataError: if the server does not respond, sends other bytes, or the disk cannot take them.
        """
        part = target.with_name(target.name + ".part")
        try:
            resumed = part.exists()
            self._complete(part, progress, pause)
            if resumed and _sha256(part) != self.sha256:
                # The leftover may be part of another file: start over before blaming the publisher.
                part.unlink()
                self._complete(part, progress, pause)
            found = _sha256(part)
            if found != self.sha256:
                part.unlink()
                raise DataError(f"{self.address} sent other bytes: sha256 {found}, expected {self.sha256}")
            part.replace(target)
        except OSError as error:
            raise DataError(f"{target} cannot be written: {error.strerror or error}") from error

    def _complete(self, part: Path, progress: ProgressCallback, pause: float) -> None:
        """Append to ``part`` until it has the expected size."""
        most, failures = _size(part), 0
        while _size(part) < self.size:
            reason = "the connection was closed"
            try:
                self._add(part, _size(part), progress)
            except _ConnectionLostError as lost:
                reason = str(lost)
            failures = 0 if _size(part) > most else failures + 1
            most = max(most, _size(part))
            if failures == _ATTEMPTS:
                raise DataError(
                    f"{self.address} could not be downloaded: {reason}. {_size(part):,} of {self.size:,} bytes are in "
                    f"{part}: try again to resume, or get the file by other means and put it in {part.parent}"
                )
            if failures:
                time.sleep(pause * 2 ** (failures - 1))

    def _add(self, part: Path, have: int, progress: ProgressCallback) -> None:
        """Open one connection, ask for the bytes from ``have`` on, and write what arrives."""
        with part.open("rb+" if have else "wb") as file:
            file.seek(have)
            progress(self.name, have, self.size)
            for start, chunk in self._chunks(have):
                if start != file.tell():  # a server without ranges sends the whole file again
                    file.seek(start)
                    file.truncate()
                file.write(chunk)
                if file.tell() > self.size:
                    file.truncate(0)
                    raise DataError(f"{self.address} is larger than the expected {self.size:,} bytes")
                progress(self.name, file.tell(), self.size)
            file.flush()
            os.fsync(file.fileno())

    def _chunks(self, have: int) -> Iterator[tuple[int, bytes]]:
        """The server's response to a request from byte ``have`` on, in chunks, each with its position in the file."""
        headers = {"User-Agent": "signwise", **({"Range": f"bytes={have}-"} if have else {})}
        try:
            request = urllib.request.Request(self.address, headers=headers)
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
                position = have if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0
                while chunk := response.read(_CHUNK):
                    yield position, chunk
                    position += len(chunk)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise DataError(f"{self.address} could not be downloaded: {error.code} {error.reason}") from error
            raise _ConnectionLostError(f"{error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise _ConnectionLostError(str(reason) or type(error).__name__) from error


class _ConnectionLostError(Exception):
    """A failure that may not recur on the next attempt."""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class Source(Protocol):
    """Fetches the files of a data set."""

    def fetch(self, folder: Path, progress: ProgressCallback) -> None:
        """Add the missing files to ``folder``; existing files are left alone."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files that are used as published.

    Args:
        folder: the name of the folder to put them in.
        downloads: the files.
    """

    folder: str
    downloads: tuple[Download, ...]

    def fetch(self, folder: Path, progress: ProgressCallback) -> None:
        target = folder / self.folder
        target.mkdir(parents=True, exist_ok=True)
        for download in self.downloads:
            if not (target / download.name).exists():
                download.to(target / download.name, progress)


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
    influence on where anything is written.

    Args:
        archive: the tar file, with any compression that tarfile supports.
        folder: the target; the folder in the archive has the same name.
        members: the files to extract.

    Raises:
        DataError: if the archive is damaged, or a member is missing or not the known one.
    """
    wanted = {PurePosixPath(folder.name, file.name): file for file in members}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                file = wanted.pop(PurePosixPath(member.name), None)
                if file is None:
                    continue
                content = _member(tar, member, file)
                if content is None:
                    raise DataError(f"{archive}: {member.name} is not the file that was expected, {file}")
                with atomic_write(folder / file.name) as target:
                    target.write(content)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{archive} is a damaged archive ({error}): remove it and get it again") from error
    except OSError as error:
        raise DataError(f"{archive} cannot be unpacked to {folder}: {error.strerror or error}") from error
    if wanted:
        raise DataError(f"{archive} has no {', '.join(map(str, wanted))}")


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, file: KnownFile) -> bytes | None:
    """The content of a member, or None if it is not the known file."""
    # Check the size first: it bounds what is read.
    if not member.isreg() or file.size not in (None, member.size):
        return None
    stream = tar.extractfile(member)
    content = stream.read() if stream is not None else b""
    return content if file.matches(content) else None


class ProgressBar:
    """A progress bar on a terminal; elsewhere one plain line per tenth.

    Args:
        stream: where to write; standard error by default.

    Example:
        >>> bar = ProgressBar(sys.stdout)
        >>> for done in (0, 60, 120):
        ...     bar("data.bin", done * 10**6, 120 * 10**6)
        data.bin: 0 of 120 MB
        data.bin: 60 of 120 MB
        data.bin: 120 of 120 MB
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._shown: tuple[str, int] | None = None
        self._next_time = 0.0

    def __call__(self, name: str, done: int, total: int) -> None:
        megabytes = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
        if not self._stream.isatty():
            tenth = 10 * done // total
            if self._shown != (name, tenth):
                self._shown = name, tenth
                print(f"{name}: {megabytes}", file=self._stream, flush=True)
            return
        now = time.monotonic()
        if now < self._next_time and done < total:
            return
        self._next_time = now + 0.1
        filled = _BAR_WIDTH * done // total
        end = "\n" if done == total else ""
        print(f"\r{name} [{'=' * filled:{_BAR_WIDTH}}] {megabytes}", end=end, file=self._stream, flush=True)
