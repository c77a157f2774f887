"""The user's own images: folders by class and .npz files, and every way in which they can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from signwise.datasets import load_own
from signwise.errors import DataError


def draw(seed: int, height: int = 6, width: int = 6, channels: int = 3) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def write(path: Path, pixels: npt.NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Ten cats and ten dogs, without a test set."""
    for number in range(10):
        write(tmp_path / "photos" / "cat" / f"{number}.png", draw(number))
        write(tmp_path / "photos" / "dog" / f"{number}.png", draw(100 + number))
    return tmp_path / "photos"


def test_images_are_read_by_class_in_the_order_of_their_names(tmp_path: Path) -> None:
    for part, seeds in (("train", (1, 2)), ("test", (3, 4))):
        write(tmp_path / part / "dog" / "b.png", draw(seeds[0]))
        write(tmp_path / part / "cat" / "a.png", draw(seeds[1]))
    (tmp_path / "train" / "cat" / ".hidden").write_text("of the system")
    data = load_own(tmp_path)
    assert data.classes == ("cat", "dog") and data.train_labels.tolist() == [0, 1]
    assert np.array_equal(data.train_images[0], draw(2).transpose(2, 0, 1))
    assert np.array_equal(data.test_images[1], draw(3).transpose(2, 0, 1))


def test_without_a_test_set_each_class_gives_its_share_and_always_the_same(photos: Path) -> None:
    data, again = load_own(photos, test_fraction=0.3), load_own(photos, test_fraction=0.3)
    assert np.bincount(data.test_labels).tolist() == [3, 3] and np.bincount(data.train_labels).tolist() == [7, 7]
    assert np.array_equal(data.test_images, again.test_images)
    everything = np.concatenate([data.train_images, data.test_images]).reshape(20, -1)
    assert len(np.unique(everything, axis=0)) == 20, "no image is in both"


def test_grey_images_have_one_channel_and_become_coloured_among_coloured_ones(tmp_path: Path, photos: Path) -> None:
    for name in ("a", "b"):
        for number in range(2):
            write(tmp_path / "grey" / name / f"{number}.png", draw(number, channels=1))
    assert load_own(tmp_path / "grey", test_fraction=0.5).image_shape == (1, 6, 6)
    write(photos / "cat" / "grey.png", draw(5, channels=1))
    assert load_own(photos).image_shape == (3, 6, 6)


def test_images_of_other_sizes_are_named_and_image_size_makes_them_one(photos: Path) -> None:
    write(photos / "dog" / "wide.png", draw(1, height=6, width=9))
    with pytest.raises(DataError, match=r"wide\.png has 9x6 pixels, and .*0\.png has 6x6: set `image_size`"):
        load_own(photos)
    assert load_own(photos, image_size=4).image_shape == (3, 4, 4)


def spoil(photos: Path, how: str) -> None:
    target = photos / "cat" / "0.png"
    if how == "cut short":
        target.write_bytes(target.read_bytes()[:60])
    elif how == "no image":
        (photos / "cat" / "notes.txt").write_text("cats")
    elif how == "empty class":
        (photos / "bird").mkdir()
    elif how == "folder in a class":
        (photos / "cat" / "more").mkdir()
    elif how == "too few":
        write(photos / "bird" / "0.png", draw(7))
    elif how == "one class":
        (photos / "dog").rename(photos.parent / "dog")
    elif how == "other classes":
        write(photos / "train" / "cat" / "0.png", draw(1))
        write(photos / "train" / "dog" / "0.png", draw(1))
        write(photos / "test" / "cat" / "0.png", draw(1))
        write(photos / "test" / "fox" / "0.png", draw(1))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut short", r"the image .*cat/0\.png is damaged"),
        ("no image", r"cat/notes\.txt is not an image"),
        ("empty class", "bird has no images"),
        ("folder in a class", "cat/more is a folder inside of a class"),
        ("too few", "the class bird has 1 images, too few"),
        ("one class", "at least two, and has one, cat"),
        ("other classes", "differ in dog, fox"),
    ],
)
def test_what_is_wrong_with_a_folder_is_named(how: str, message: str, photos: Path) -> None:
    spoil(photos, how)
    with pytest.raises(DataError, match=message):
        load_own(photos)


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no .*nothing: name a folder"):
        load_own(tmp_path / "nothing")


GREY, LABELS = np.zeros((4, 6, 6), np.uint8), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    "images",
    [GREY, GREY[:, None], GREY[..., None], np.repeat(GREY[:, None], 3, 1), np.repeat(GREY[..., None], 3, 3)],
    ids=lambda images: str(images.shape),
)
def test_arrays_of_every_usual_layout_are_read(images: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x_train=images, y_train=LABELS, x_test=images, y_test=LABELS[:, None])
    data = load_own(tmp_path / "x.npz")
    assert data.image_shape == (3 if images.size > GREY.size else 1, 6, 6) and data.name == "x"
    np.savez(tmp_path / "y.npz", x_train=images, y_train=np.array(["b", "a", "b", "a"]))
    held_out = load_own(tmp_path / "y.npz", test_fraction=0.5)
    assert held_out.classes == ("a", "b") and held_out.test_labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": GREY}, "has no array y_train"),
        ({"x_train": GREY, "y_train": LABELS, "x_test": GREY}, "only one of x_test and y_test"),
        ({"x_train": GREY / 2, "y_train": LABELS}, "must hold bytes from 0 to 255"),
        ({"x_train": np.zeros((4, 3, 5, 3), np.uint8), "y_train": LABELS}, "with 1 or 3 channels"),
        ({"x_train": GREY, "y_train": LABELS / 2}, "must be one integer or text per image"),
        ({"x_train": GREY, "y_train": LABELS[:3]}, "4 images need one label each, got 3"),
        ({"x_train": GREY, "y_train": LABELS * 0}, "at least two classes"),
        ({"x_train": np.array([None]), "y_train": LABELS}, "plain arrays"),
    ],
)
def test_what_is_wrong_with_arrays_is_named(arrays: Any, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=message):
        load_own(tmp_path / "x.npz")


def test_files_that_are_no_npz_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", GREY)
    (tmp_path / "noise.npz").write_bytes(b"noise")
    np.savez(tmp_path / "cut.npz", x_train=GREY, y_train=LABELS)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:200])
    for name, message in (("one.npy", "holds one array"), ("noise.npz", "damaged"), ("cut.npz", "damaged")):
        with pytest.raises(DataError, match=message):
            load_own(tmp_path / name)
