"""The data sets of the paper, as numpy arrays; nothing here but the augmentation needs torch."""

from __future__ import annotations

from pathlib import Path

from signwise.datasets.images import ImageData
from signwise.datasets.mnist import MNIST, IdxDataset

NAMES: dict[str, IdxDataset] = {dataset.name: dataset for dataset in (MNIST,)}

__all__ = ["NAMES", "ImageData", "load"]


def load(name: str, folder: Path | str | None = None, download: bool = True, progress: None = None) -> ImageData:
    """Load a data set into memory."""
    return NAMES[name].load()
