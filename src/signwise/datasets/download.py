"""Downloads: resumable, and checked before they get their name.

The bytes go to ``NAME.part``. A broken connection resumes where it stopped, in the same run or a later one, through an
HTTP range request; a server without ranges is read from the start. Only a file with the right hash is renamed to
``NAME``. A `Source` fetches all files of a data set, either one by one or from an archive.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import os
import queue
import stat
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, TextIO

from signwise.errors import DataError
from signwise.text import printable

_CHUNK = 1 << 18
_TIMEOUT = 30.0  # seconds without a byte
_ATTEMPTS = 5  # consecutive connections without a new byte
_PATIENCE, _LEAST = 180.0, 1 << 16  # seconds in which at least so many bytes must arrive
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
            with _open_part(part) as file:
                resumed = _size(file) > 0
                self._complete(file, part, progress, pause)
                if resumed and _sha256(file) != self.sha256:
                    # The leftover may be part of another file: start over before blaming the publisher.
                    file.truncate(0)
                    self._complete(file, part, progress, pause)
                found = _sha256(file)
                if found != self.sha256:
                    part.unlink(missing_ok=True)
                    raise DataError(f"{self.address} sent other bytes: sha256 {found}, expected {self.sha256}")
            part.replace(target)
        except OSError as error:
            raise DataError(f"{target} cannot be written: {error.strerror or error}") from error

    def _complete(self, file: IO[bytes], part: Path, progress: ProgressCallback, pause: float) -> None:
        """Append to the file until it has the expected size."""
        most, failures = _size(file), 0
        patience = _Patience()
        while _size(file) < self.size:
            reason = "the connection was closed"
            try:
                self._add(file, progress, patience)
            except _ConnectionLostError as lost:
                reason = str(lost)
            have = _size(file)
            failures = 0 if have > most else failures + 1
            most = max(most, have)
            if failures == _ATTEMPTS or (patience.is_over and have < self.size):
                raise DataError(
                    f"{self.address} could not be downloaded: {printable(reason)}. {have:,} of {self.size:,} bytes are "
                    f"in {part}: try again to resume, or get the file by other means and put it in {part.parent}"
                )
            if failures:
                time.sleep(pause * 2 ** (failures - 1))

    def _add(self, file: IO[bytes], progress: ProgressCallback, patience: _Patience) -> None:
        """Open one connection, ask for the bytes that are missing, and write what arrives."""
        have = file.seek(0, os.SEEK_END)
        progress(self.name, have, self.size)
        try:
            for start, chunk in _in_time(self._chunks(have), patience):
                if start != file.tell():  # a server without ranges sends the whole file again
                    file.seek(start)
                    file.truncate()
                file.write(chunk)
                if file.tell() > self.size:
                    file.truncate(0)
                    raise DataError(f"{self.address} is larger than the expected {self.size:,} bytes")
                patience.seen(file.tell())
                progress(self.name, file.tell(), self.size)
        finally:
            file.flush()
            os.fsync(file.fileno())

    def _chunks(self, have: int) -> Iterator[tuple[int, bytes]]:
        """The server's response to a request from byte ``have`` on, in chunks, each with its position in the file."""
        headers = {"User-Agent": "signwise", **({"Range": f"bytes={have}-"} if have else {})}
        try:
            request = urllib.request.Request(self.address, headers=headers)
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
                position = have if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0
                while chunk := response.read1(_CHUNK):  # what has arrived, without waiting for the rest of the chunk
                    yield position, chunk
                    position += len(chunk)
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"{error.code} {error.reason}"
            if error.code < 500:
                raise DataError(f"{self.address} could not be downloaded: {printable(reason)}") from error
            raise _ConnectionLostError(reason) from error
        except (OSError, http.client.HTTPException) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            raise _ConnectionLostError(str(cause) or type(error).__name__) from error


class _ConnectionLostError(Exception):
    """A failure that may not recur on the next attempt."""


class _Patience:
    """Notices a download that stands still, and one that drips without end."""

    def __init__(self) -> None:
        self._mark, self._since = 0, time.monotonic()

    def seen(self, done: int) -> None:
        """The file has grown to ``done`` bytes, or starts again."""
        if done < self._mark or done - self._mark >= _LEAST:
            self._mark, self._since = done, time.monotonic()

    @property
    def left(self) -> float:
        return self._since + _PATIENCE - time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.left <= 0


def _in_time(chunks: Iterator[tuple[int, bytes]], patience: _Patience) -> Iterator[tuple[int, bytes]]:
    """The chunks, as long as there is patience.

    A thread reads them, because the timeout of a socket starts anew with each byte: a server could spend hours on the
    headers alone.
    """
    arrived: queue.Queue[tuple[int, bytes] | BaseException | None] = queue.Queue(maxsize=16)
    abandoned = threading.Event()

    def read() -> None:
        last: BaseException | None = None
        try:
            for chunk in chunks:
                arrived.put(chunk)
                if abandoned.is_set():
                    return
        except BaseException as error:
            last = error
        arrived.put(last)

    threading.Thread(target=read, daemon=True).start()
    try:
        while not patience.is_over:
            with contextlib.suppress(queue.Empty):
                item = arrived.get(timeout=min(patience.left, 1.0) if patience.left > 0 else 0.001)
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        raise _ConnectionLostError(f"less than {_LEAST:,} bytes arrived in {_PATIENCE:.0f} s")
    finally:
        abandoned.set()
        with contextlib.suppress(queue.Empty):  # room for a thread that waits to put its chunk
            arrived.get_nowait()


def _open_part(part: Path) -> IO[bytes]:
    """Open an unfinished download to read and write; what is not a plain file of this user is replaced.

    Its name is known in advance, so in a folder that others write to it may be a link to a file of this user.
    """
    flags = os.O_RDWR | os.O_CREAT
    flags |= sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
    try:
        descriptor = os.open(part, flags, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    else:
        found = os.fstat(descriptor)
        is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
        if is_own and stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            return os.fdopen(descriptor, "rb+")
        os.close(descriptor)
    part.unlink()
    return os.fdopen(os.open(part, flags | os.O_EXCL, 0o666), "rb+")


def _size(file: IO[bytes]) -> int:
    file.flush()
    return os.fstat(file.fileno()).st_size


def _sha256(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    file.seek(0)
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
