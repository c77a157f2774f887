"""Files that are written completely or not at all.

The bytes go to a temporary file in the same folder, reach the disk, and only then get their final name. A reader, or
a process that starts after a crash, sees the old file or the new one, never a part.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that appears at ``path`` if and only if the block ends without an error.

    Example:
        >>> import tempfile, pathlib
        >>> target = pathlib.Path(tempfile.mkdtemp()) / "a.bin"
        >>> with atomic_write(target) as file:
        ...     _ = file.write(b"whole")
        >>> target.read_bytes()
        b'whole'
    """
    target = Path(path)
    temporary, descriptor = _create_beside(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        # The rename is an entry of the folder: until that is flushed, a power cut may undo it.
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_unfinished(path: Path) -> None:
    """Remove what a process left behind that was killed inside :func:`atomic_write` to ``path``.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in (".a.bin.0f3c9a12.part", ".backup.part"):
        ...     _ = (folder / name).write_bytes(b"")
        >>> remove_unfinished(folder / "a.bin")
        >>> [left.name for left in folder.iterdir()]
        ['.backup.part']
    """
    ours = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}\.part")
    for left in path.parent.iterdir():
        if ours.fullmatch(left.name):
            left.unlink(missing_ok=True)


def _create_beside(target: Path) -> tuple[Path, int]:
    # Not mkstemp, which makes a private file: here the system itself applies the umask, as it does for open(). Reading
    # the umask to apply it later would change it for a moment, for all threads of the process.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        with contextlib.suppress(FileExistsError):
            return temporary, os.open(temporary, flags, 0o666)
