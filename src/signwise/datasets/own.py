"""The user's own images: a folder per class, or a ``.npz`` file with arrays.

    photos/train/cat/1.jpg, photos/train/dog/2.png, ...     photos/test/cat/3.jpg, ...
    photos/cat/1.jpg, photos/dog/2.png, ...                 without a test set: a part of each class is held out
    images.npz                                              x_train, y_train, and x_test, y_test if there is a test set

Files are read in the order of their names, so that the same folder is the same data set everywhere. Nothing is skipped
silently: a file that is no image, a class without images and an image of another size are errors that name the file.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.datasets.images import ImageData, Split
from signwise.errors import DataError

OWN = "own"
"""The name of the user's own data in recipes."""
SPLIT_SEED = 0
"""Draws the test images where there is no test set. Fixed, so that runs with different seeds are tested alike."""

_TRAIN = ("train", "training")
_TEST = ("test", "val", "valid", "validation")
_MOST = 1 << 34  # bytes of all images together: they are held in memory


def load_own(path: str | Path, *, image_size: int | None = None, test_fraction: float = 0.1) -> ImageData:
    """Read a folder of images by class, or a ``.npz`` file.

    Args:
        path: the folder or the file.
        image_size: scale and crop each image to a square of this many pixels; ``None`` for images that are all of the
            same size already. For folders only.
        test_fraction: the share of each class that is held out for testing if there is no test set.

    Returns:
        The images with their labels; the classes are in alphabetical order.

    Raises:
        DataError: something is missing, empty, damaged or of another size; the message names the file.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        return _read_folder(path, image_size, test_fraction)
    if not path.exists():
        raise DataError(f"there is no {path}: name a folder with one subfolder of images per class, or a .npz file")
    if image_size is not None:
        raise DataError(f"`image_size` is for folders of images, and {path} is a file: scale its arrays yourself")
    return _read_npz(path, test_fraction)


def _read_folder(path: Path, size: int | None, test_fraction: float) -> ImageData:
    parts = {part.name: part for part in _subfolders(path)}
    train = next((parts[name] for name in _TRAIN if name in parts), None)
    if train is None:
        classes = _classes(path)
        everything = _read_classes(path, classes, size)
        return _data(path, classes, *_held_out(path, everything, classes, test_fraction))
    classes = _classes(train)
    test = next((parts[name] for name in _TEST if name in parts), None)
    if test is None:
        everything = _read_classes(train, classes, size)
        return _data(path, classes, *_held_out(path, everything, classes, test_fraction))
    if different := set(classes) ^ set(_classes(test)):
        raise DataError(f"{train} and {test} must have the same classes, and differ in {', '.join(sorted(different))}")
    one, other = _read_classes(train, classes, size), _read_classes(test, classes, size)
    if one.images.shape[1] != other.images.shape[1]:  # one of them is grey throughout
        one, other = (
            Split(np.repeat(split.images, 3 // split.images.shape[1], 1), split.labels) for split in (one, other)
        )
    return _data(path, classes, one, other)


def _data(path: Path, classes: Sequence[str], train: Split, test: Split) -> ImageData:
    return ImageData(name=path.resolve().stem, classes=tuple(classes), train=train, test=test)


def _subfolders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _classes(path: Path) -> list[str]:
    classes = [folder.name for folder in _subfolders(path)]
    if len(classes) < 2:
        found = f"one, {classes[0]}" if classes else "none"
        raise DataError(f"{path} must have one subfolder of images per class, at least two, and has {found}")
    return classes


def _read_classes(path: Path, classes: Sequence[str], size: int | None) -> Split:
    images: list[npt.NDArray[np.uint8]] = []
    labels: list[int] = []
    first, total = None, 0
    for label, name in enumerate(classes):
        files = sorted(file for file in (path / name).iterdir() if not file.name.startswith("."))
        if not files:
            raise DataError(f"the class {path / name} has no images: add some, or remove the folder")
        for file in files:
            image = _read_image(file, size)
            first = first or (file, image.shape[:2])
            if image.shape[:2] != first[1]:
                raise DataError(
                    f"{file} has {_pixels(image.shape[:2])} pixels, and {first[0]} has {_pixels(first[1])}: set "
                    "`image_size` to scale and crop all to one size"
                )
            total += image.nbytes
            if total > _MOST:
                raise DataError(f"the images in {path} take more than 16 GB in memory: set a smaller `image_size`")
            images.append(image)
            labels.append(label)
    channels = max(image.shape[2] for image in images)  # grey images among coloured ones become coloured
    pixels = np.stack([np.repeat(image, channels // image.shape[2], axis=2) for image in images])
    return Split(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), np.array(labels, np.int64))


def _pixels(shape: tuple[int, ...]) -> str:
    return f"{shape[1]}x{shape[0]}"


def _read_image(path: Path, size: int | None) -> npt.NDArray[np.uint8]:
    """(H, W, C) bytes; one channel for grey images, three for all others."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ModuleNotFoundError as error:
        raise DataError("reading images needs Pillow: pip install 'signwise[train]'") from error

    if path.is_dir():
        raise DataError(f"{path} is a folder inside of a class: put the images directly into the class's folder")
    try:
        with Image.open(path) as opened:
            image: Any = ImageOps.exif_transpose(opened)  # phones store the orientation beside the pixels
            image = image.convert("L" if image.mode in ("1", "L", "I", "I;16", "F") else "RGB")
            if size is not None:
                image = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
            pixels = np.asarray(image, np.uint8)
    except UnidentifiedImageError:
        raise DataError(f"{path} is not an image that Pillow can read: remove it from the class's folder") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"the image {path} is damaged: {error}") from error
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _held_out(path: Path, data: Split, classes: Sequence[str], fraction: float) -> tuple[Split, Split]:
    """A training and a test split; each class gives the same share, drawn with a fixed seed."""
    random = np.random.default_rng(SPLIT_SEED)
    is_test = np.zeros(len(data.labels), bool)
    for label, name in enumerate(classes):
        members = np.flatnonzero(data.labels == label)
        count = max(1, round(fraction * len(members)))
        if count >= len(members):
            raise DataError(
                f"{path}: the class {name} has {len(members)} images, too few to hold {count} out for testing: add "
                "images, or a test set"
            )
        is_test[random.permutation(members)[:count]] = True
    return Split(data.images[~is_test], data.labels[~is_test]), Split(data.images[is_test], data.labels[is_test])


def _read_npz(path: Path, test_fraction: float) -> ImageData:
    wanted = ("x_train", "y_train", "x_test", "y_test")
    try:
        with path.open("rb") as handle:  # np.load leaves a damaged file open
            file = np.load(handle, allow_pickle=False)
            is_several = isinstance(file, np.lib.npyio.NpzFile)
            arrays = {name: file[name] for name in wanted if name in file} if is_several else {}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a .npz file of plain arrays, or is damaged: {error}") from error
    if not is_several:
        raise DataError(f"{path} holds one array: save several with numpy.savez(path, x_train=..., y_train=...)")
    for name in ("x_train", "y_train"):
        if name not in arrays:
            raise DataError(
                f"{path} has no array {name}: save x_train and y_train, and x_test and y_test if you have them"
            )
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise DataError(f"{path} has only one of x_test and y_test")
    parts = [part for part in ("train", "test") if f"x_{part}" in arrays]
    labels = {part: _labels(path, f"y_{part}", arrays[f"y_{part}"]) for part in parts}
    names = np.unique(np.concatenate(list(labels.values())))
    splits = [
        Split(_images(path, f"x_{part}", arrays[f"x_{part}"]), np.searchsorted(names, labels[part]).astype(np.int64))
        for part in parts
    ]
    classes = [str(name) for name in names]
    if len(classes) < 2:
        raise DataError(f"{path}: y_train must have at least two classes, got {', '.join(classes) or 'none'}")
    if len(splits) == 1:
        if len(splits[0].images) != len(splits[0].labels):
            raise DataError(f"{path}: {len(splits[0].images)} images need one label each, got {len(splits[0].labels)}")
        return _data(path, classes, *_held_out(path, splits[0], classes, test_fraction))
    return _data(path, classes, *splits)


def _labels(path: Path, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    flat = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim != 1 or flat.dtype.kind not in "iuU":
        raise DataError(
            f"{path}: {name} must be one integer or text per image, got {array.dtype} of shape {array.shape}"
        )
    return flat


def _images(path: Path, name: str, array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if array.dtype != np.uint8:
        raise DataError(f"{path}: {name} must hold bytes from 0 to 255 (uint8), got {array.dtype}")
    if array.ndim == 3:  # (N, H, W)
        return array[:, None]
    first, last = (array.ndim == 4 and array.shape[axis] in (1, 3) for axis in (1, 3))
    if first == last:
        raise DataError(
            f"{path}: {name} must be (N, H, W), (N, C, H, W) or (N, H, W, C) with 1 or 3 channels, got {array.shape}"
        )
    return array if first else np.ascontiguousarray(array.transpose(0, 3, 1, 2))
