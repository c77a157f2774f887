"""A data set: what it is called, how its files look, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from signwise.datasets.cache import VARIABLE, alone_in
from signwise.datasets.images import Arrays, ImageData
from signwise.datasets.known_file import SUMS, KnownFile
from signwise.datasets.progress import Progress
from signwise.datasets.source import Source
from signwise.errors import DataError


class Layout(Protocol):
    """A form in which the files of a data set lie in a folder."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The names that such a folder usually has."""

    @property
    def files(self) -> tuple[KnownFile, ...]:
        """The files in it."""

    def missing(self, folder: Path) -> list[str]:
        """The names of the files that are not in ``folder``."""

    def read(self, folder: Path) -> Arrays:
        """Read and check the files in ``folder``."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A published data set of images.

    Args:
        name: its name on the command line.
        title: its name in print.
        classes: the names of its classes.
        image_shape: (C, H, W) of an image.
        layouts: the forms in which its files may lie in a folder, the preferred one first.
        source: where the files come from; None where they come with the package.
        embedded: the folder in the package; None where they are downloaded.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    image_shape: tuple[int, int, int]
    layouts: tuple[Layout, ...]
    source: Source | None = None
    embedded: Path | None = None

    def load(self, folder: Path, *, download: bool, progress: Progress) -> ImageData:
        """Read the data set from ``folder`` or a folder in it; bring it there first where it is missing.

        Args:
            folder: the folder of the files, or one above it.
            download: whether to download what is missing.
            progress: is told how far the download is.

        Raises:
            DataError: if it is missing, incomplete, or not the published one.
        """
        found = self._find(folder)
        if found is None and self.embedded is not None:
            found = self.layouts[0], self.embedded
        if found is None and self.source is not None and download:
            with alone_in(folder):
                # Another process may have brought it in the meantime.
                if self._find(folder) is None:
                    self.source.fetch(folder, progress)
            found = self._find(folder)
        if found is None:
            raise DataError(self._absence(folder))
        layout, place = found
        arrays = layout.read(place)
        if arrays.train_images.shape[1:] != self.image_shape:
            raise DataError(
                f"{place} holds images of {arrays.train_images.shape[1:]}, {self.title} has {self.image_shape}"
            )
        return ImageData(name=self.name, classes=self.classes, **arrays._asdict())

    def _find(self, folder: Path) -> tuple[Layout, Path] | None:
        """The first complete layout in ``folder``."""
        for layout in self.layouts:
            for place in (folder, *(folder / name for name in layout.folders)):
                missing = layout.missing(place)
                if not missing:
                    return layout, place
                # A folder of the user's own is not completed behind her back, unlike a download that was interrupted.
                own = place == folder or (place / SUMS).exists()
                if own and len(missing) < len(layout.files):
                    raise DataError(f"{place} lacks {', '.join(missing)} of {self.title}")
        return None

    def _absence(self, folder: Path) -> str:
        forms = " or ".join(f"{layout.folders[0]}/{layout.files[0].name}" for layout in self.layouts)
        return (
            f"{self.title} is not in {folder}: expected {forms} and the files beside it; "
            f"allow the download, or name the folder that has them (also by {VARIABLE})"
        )
