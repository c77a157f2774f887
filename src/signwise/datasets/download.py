"""Downloads that can be taken up again, and that are checked before they get their name.

The bytes go to ``NAME.part``. A connection that is cut is resumed where it stopped, in the same run or in a later one,
by an HTTP range request; a server that does not know ranges is read from the start. Only a file with the right hash is
renamed to ``NAME``.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from signwise.datasets.progress import Progress
from signwise.errors import DataError

_CHUNK = 1 << 18
_TIMEOUT = 30.0  # seconds without a byte
_PATIENCE = 5  # connections in a row that bring nothing new


@dataclass(frozen=True)
class Download:
    """A file at its publisher's.

    Args:
        address: the URL.
        size: its bytes.
        sha256: its hash, in hexadecimal.
    """

    address: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        return self.address.rpartition("/")[2]

    def to(self, target: Path, progress: Progress, *, pause: float = 1.0) -> None:
        """Bring the file to ``target``; what an earlier attempt has left in ``target.part`` is used.

        Args:
            target: the file to write; its folder must exist.
            progress: is told how far it is.
            pause: seconds before the second attempt in a row without progress, doubled for each further one.

        Raises:
            DataError: if the address does not answer, answers with other bytes, or the disk refuses them.
        """
        part = target.with_name(target.name + ".part")
        try:
            resumed = part.exists()
            self._complete(part, progress, pause)
            if resumed and _sha256(part) != self.sha256:
                # What was left behind may have belonged to something else: start again before blaming the publisher.
                part.unlink()
                self._complete(part, progress, pause)
            found = _sha256(part)
            if found != self.sha256:
                part.unlink()
                raise DataError(f"{self.address} answered with other bytes: sha256 {found}, expected {self.sha256}")
            part.replace(target)
        except OSError as error:
            raise DataError(f"{target} cannot be written: {error.strerror or error}") from error

    def _complete(self, part: Path, progress: Progress, pause: float) -> None:
        """Add bytes to ``part`` until it has the right size."""
        most, failures = _size(part), 0
        while _size(part) < self.size:
            reason = "the connection was cut"
            try:
                self._add(part, _size(part), progress)
            except _ConnectionLostError as lost:
                reason = str(lost)
            failures = 0 if _size(part) > most else failures + 1
            most = max(most, _size(part))
            if failures == _PATIENCE:
                raise DataError(
                    f"{self.address} could not be downloaded: {reason}. {_size(part):,} of {self.size:,} bytes are in "
                    f"{part}: try again to go on from there, or get the file otherwise and put it in {part.parent}"
                )
            if failures:
                time.sleep(pause * 2 ** (failures - 1))

    def _add(self, part: Path, have: int, progress: Progress) -> None:
        """One connection: write what the server sends when it is asked for the bytes from ``have`` on."""
        with part.open("rb+" if have else "wb") as file:
            file.seek(have)
            progress(self.name, have, self.size)
            for start, chunk in self._chunks(have):
                if start != file.tell():  # a server that does not know ranges sends the whole file again
                    file.seek(start)
                    file.truncate()
                file.write(chunk)
                if file.tell() > self.size:
                    file.truncate(0)
                    raise DataError(f"{self.address} is larger than the {self.size:,} bytes that were expected")
                progress(self.name, file.tell(), self.size)
            file.flush()
            os.fsync(file.fileno())

    def _chunks(self, have: int) -> Iterator[tuple[int, bytes]]:
        """The bytes that the server sends when it is asked for those from ``have`` on, each with its position."""
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
                raise DataError(f"{self.address} answered {error.code} {error.reason}") from error
            raise _ConnectionLostError(f"it answered {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise _ConnectionLostError(str(reason) or type(error).__name__) from error


class _ConnectionLostError(Exception):
    """A failure that another attempt may mend."""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
