"""The data sets of the paper, as numpy arrays in memory.

MNIST comes with the package. Fashion-MNIST, CIFAR-10 and CIFAR-100 are read from a folder that has them, in any form
that their publishers or torchvision leave behind, or else downloaded. Nothing here needs torch; the augmentation in
`signwise.datasets.augment` does.
"""

from __future__ import annotations

import difflib
import os

from signwise.datasets.cache import data_folder
from signwise.datasets.catalog import CIFAR10, CIFAR100, FASHION_MNIST, MNIST
from signwise.datasets.dataset import Dataset
from signwise.datasets.images import ImageData
from signwise.datasets.progress import Progress, ProgressBar
from signwise.errors import SignwiseError

NAMES: dict[str, Dataset] = {dataset.name: dataset for dataset in (MNIST, FASHION_MNIST, CIFAR10, CIFAR100)}
"""The data sets by the names that the command line and the recipes use; what is known of each before it is loaded."""

__all__ = ["NAMES", "Dataset", "ImageData", "Progress", "ProgressBar", "data_folder", "load"]


def load(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: Progress | None = None,
) -> ImageData:
    """Load a data set into memory; download it first where it is missing.

    Every file is checked against the hash that its publisher gives. A folder with a ``SHA256SUMS`` file holds a data
    set of the user's own, with any number of images, and is checked against that instead.

    Args:
        name: one of `NAMES`.
        folder: the folder that has the data set, or to which it is downloaded; by default that of the environment
            variable ``SIGNWISE_DATA``, else ``~/.cache/signwise``.
        download: whether to download what is missing.
        progress: is told ``(file, bytes done, bytes in all)`` during a download; a `ProgressBar` by default.

    Returns:
        The images and labels, for training and for the test.

    Raises:
        SignwiseError: if there is no data set of that name.
        DataError: if it is missing, incomplete, or not the published one.

    Example:
        >>> load("mnist")
        ImageData(mnist: 60000 training and 10000 test images of 1x28x28, 10 classes)
    """
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(NAMES)}"
        raise SignwiseError(f"there is no data set {name!r}: {hint}")
    return NAMES[name].load(data_folder(folder), download=download, progress=progress or ProgressBar())
