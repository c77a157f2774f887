"""A published data set: the layouts that its files may have, the folder to find them in, and how to fetch them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from signwise.datasets.download import ProgressCallback, Source
from signwise.datasets.images import ImageData, Split
from signwise.datasets.known_file import SUMS, KnownFile
from signwise.errors import DataError

DATA_VARIABLE = "SIGNWISE_DATA"
"""The environment variable that names the folder of the data sets."""


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """``folder`` if given, else the value of ``SIGNWISE_DATA``, else ``~/.cache/signwise``.

    Example:
        >>> data_folder("images").name
        'images'
    """
    chosen = folder or os.environ.get(DATA_VARIABLE)
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "signwise"


class Layout(Protocol):
    """One form in which the files of a data set are published."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The usual names of the folder."""

    @property
    def files(self) -> tuple[KnownFile, ...]:
        """The files in it."""

    def missing(self, folder: Path) -> list[str]:
        """The names of the files that ``folder`` lacks."""

    def read(self, folder: Path) -> tuple[Split, Split]:
        """Read and check the files in ``folder``: the training split and the test split."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A published data set of images.

    Args:
        name: the name on the command line and in recipes.
        title: the name in print.
        classes: the names of the classes.
        image_shape: (C, H, W) of an image.
        layouts: the forms in which the files are published, the preferred one first.
        source: where to download the files; None if they come with the package.
        embedded: the folder in the package; None if the files are downloaded.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    image_shape: tuple[int, int, int]
    layouts: tuple[Layout, ...]
    source: Source | None = None
    embedded: Path | None = None

    def load(self, folder: Path, *, download: bool, progress: ProgressCallback) -> ImageData:
        """Read the data set from ``folder`` or one of its subfolders; download it first if it is missing.

        Args:
            folder: the folder with the files, or its parent.
            download: whether to download missing files.
            progress: called while downloading.

        Raises:
            DataError: if the data set is missing, incomplete, or not the published one.
        """
        found = self._find(folder)
        if found is None and self.embedded is not None:
            found = self.layouts[0], self.embedded
        if found is None and self.source is not None and download:
            with _locked(folder):
                # Another process may have fetched it in the meantime.
                if self._find(folder) is None:
                    self.source.fetch(folder, progress)
            found = self._find(folder)
        if found is None:
            raise DataError(self._absence(folder))
        layout, place = found
        train, test = layout.read(place)
        if train.images.shape[1:] != self.image_shape:
            raise DataError(f"{place} holds images of {train.images.shape[1:]}, {self.title} has {self.image_shape}")
        return ImageData(name=self.name, classes=self.classes, train=train, test=test)

    def _find(self, folder: Path) -> tuple[Layout, Path] | None:
        """The first complete layout in ``folder``."""
        for layout in self.layouts:
            for place in (folder, *(folder / name for name in layout.folders)):
                missing = layout.missing(place)
                if not missing:
                    return layout, place
                # Complete an interrupted download, but never silently add to a folder of the user's own.
                own = place == folder or (place / SUMS).exists()
                if own and len(missing) < len(layout.files):
                    raise DataError(f"{place} lacks {', '.join(missing)} of {self.title}")
        return None

    def _absence(self, folder: Path) -> str:
        forms = " or ".join(f"{layout.folders[0]}/{layout.files[0].name}" for layout in self.layouts)
        return (
            f"{self.title} is not in {folder}: expected {forms} and the files beside it; "
            f"allow the download, or name the folder that has them (also by {DATA_VARIABLE})"
        )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create ``folder`` if needed, and hold its lock, so that one process at a time fills it.

    The processes of a distributed training start together and need the same download: the first fetches it, the others
    find it.
    """
    lock = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise DataError(
            f"{folder} cannot be written to: {error.strerror}; choose another with {DATA_VARIABLE}"
        ) from error
    with file:
        # Windows has no flock, and some network folders refuse it. Without the lock a file may be downloaded twice, but
        # never half: it gets its name only when it is complete.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
