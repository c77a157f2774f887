"""The data sets of the paper, as numpy arrays in memory.

MNIST comes with the package. Fashion-MNIST, CIFAR-10 and CIFAR-100 are read from a local folder, in any form that their
publishers or torchvision provide, and downloaded otherwise. `load_own` reads your own images, and `mel_spectrogram`
sounds. Nothing here needs torch.
"""

from __future__ import annotations

import os

from signwise.datasets.catalog import DATA_VARIABLE, DATASETS, Dataset, data_folder
from signwise.datasets.download import ProgressBar, ProgressCallback
from signwise.datasets.images import ImageData, Split
from signwise.datasets.own import OWN, load_own
from signwise.datasets.sounds import mel_spectrogram
from signwise.errors import SignwiseError
from signwise.text import unknown_name

__all__ = [
    "DATASETS",
    "DATA_VARIABLE",
    "OWN",
    "Dataset",
    "ImageData",
    "ProgressBar",
    "ProgressCallback",
    "Split",
    "data_folder",
    "load",
    "load_own",
    "mel_spectrogram",
]

NAMES = DATASETS


def load(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: ProgressCallback | None = None,
) -> ImageData:
    """Load a data set into memory, and download it first if it is missing.

    Every file is checked against its publisher's hash. A folder with a ``SHA256SUMS`` file holds a data set of the
    user's own, with any number of images; its files are checked against that list instead.

    Args:
        name: a key of `DATASETS`.
        folder: the folder to read from and download to; by default the value of the environment variable
            ``SIGNWISE_DATA``, else ``~/.cache/signwise``.
        download: whether to download missing files.
        progress: called with ``(file, bytes so far, total bytes)`` while downloading; a `ProgressBar` by default.

    Returns:
        The training and test images with their labels.

    Raises:
        SignwiseError: if no data set has that name.
        DataError: if the data set is missing, incomplete, or not the published one.

    Example:
        >>> load("mnist")
        ImageData(mnist: 60000 training and 10000 test images of 1x28x28, 10 classes)
    """
    if name not in DATASETS:
        raise SignwiseError(unknown_name("data set", name, DATASETS))
    return DATASETS[name].load(data_folder(folder), download=download, progress=progress or ProgressBar())
