"""The folder where downloaded data sets are kept, and the lock that lets one process at a time fill it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from signwise.errors import DataError

VARIABLE = "SIGNWISE_DATA"


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder that is asked for, else that of ``SIGNWISE_DATA``, else ``~/.cache/signwise``.

    Example:
        >>> data_folder("images").name
        'images'
    """
    chosen = folder or os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "signwise"


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make ``folder`` where it is missing, and wait until no other process is filling it.

    The processes of one training start together and all want the same download: the first gets it, the others find it.

    Raises:
        DataError: if the folder cannot be made or written to.
    """
    lock = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise DataError(f"{folder} cannot be written to: {error.strerror}; choose another with {VARIABLE}") from error
    with file:
        # Windows has no flock, some network folders refuse it: then only the convenience is lost, since every file
        # takes its name when it is whole.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
