"""Where a data set comes from when it is not on the disk: single files, or one archive."""

from __future__ import annotations

import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from signwise.atomic import atomic_write
from signwise.datasets.download import Download
from signwise.datasets.known_file import KnownFile
from signwise.datasets.progress import Progress
from signwise.errors import DataError


class Source(Protocol):
    """Brings the files of a data set to a folder."""

    def fetch(self, folder: Path, progress: Progress) -> None:
        """Bring what is missing; files that are there are left alone."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files that are used as they are published.

    Args:
        folder: the name of the folder to put them in.
        downloads: the files.
    """

    folder: str
    downloads: tuple[Download, ...]

    def fetch(self, folder: Path, progress: Progress) -> None:
        target = folder / self.folder
        target.mkdir(parents=True, exist_ok=True)
        for download in self.downloads:
            if not (target / download.name).exists():
                download.to(target / download.name, progress)


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A tar file of which some members are wanted.

    Args:
        folder: the folder of the members in the archive, and on the disk.
        download: the archive.
        members: the wanted files; nothing else is taken out.
    """

    folder: str
    download: Download
    members: tuple[KnownFile, ...]

    def fetch(self, folder: Path, progress: Progress) -> None:
        archive = folder / self.download.name
        # An archive that is there already is used, and left: it may be the user's own. Its members are checked anyway.
        if archive.exists():
            unpack(archive, folder / self.folder, self.members)
        else:
            self.download.to(archive, progress)
            unpack(archive, folder / self.folder, self.members)
            archive.unlink()


def unpack(archive: Path, folder: Path, members: tuple[KnownFile, ...]) -> None:
    """Write the wanted ``members`` of a tar file to ``folder``, each whole or not at all.

    Only regular files ``NAME_OF_FOLDER/NAME`` with the known size and hash are taken; the archive has no say in where
    anything is written.

    Args:
        archive: the tar file, compressed in any way that tarfile knows.
        folder: where to write; its name is that of the folder in the archive.
        members: the wanted files.

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
    """The content of a member, if it is the known file."""
    # The size comes first: it bounds what is read.
    if not member.isreg() or file.size not in (None, member.size):
        return None
    stream = tar.extractfile(member)
    content = stream.read() if stream is not None else b""
    return content if file.describes(content) else None
