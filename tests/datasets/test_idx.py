"""The IDX format, and the folders of the data sets that use it."""

from __future__ import annotations

import gzip
import lzma
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signwise import datasets
from signwise.datasets.idx import parse_idx
from signwise.errors import DataError

EMBEDDED = Path(datasets.__file__).parent / "embedded"


@given(shape=st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_an_array_comes_back_as_it_was_written(shape: list[int]) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    content = struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape) + array.tobytes()
    parsed = parse_idx(content, rank=len(shape), source="x")
    assert np.array_equal(parsed, array) and parsed.flags.writeable


GOOD = bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD[:-1], "x should have 11 bytes for 3 values, found 10"),
        (GOOD + b"!", "x should have 11 bytes for 3 values, found 12"),
        (GOOD[:5], "x is cut short"),
        (b"", "x is cut short"),
        (b"<html><body>", "x is not an IDX file of rank 1: it begins with 3c 68 74 6d"),
        (bytes([0, 0, 0x0D, 1]) + GOOD[4:], "x is not an IDX file of rank 1"),
        (bytes([0, 0, 8, 3]) + GOOD[4:] + bytes(8), "x is not an IDX file of rank 1"),
        (GOOD[:4] + b"\xff\xff\xff\xff", "should have 4,294,967,303 bytes"),
    ],
)
def test_a_file_that_is_cut_long_or_foreign_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_idx(content, rank=1, source="x")


def test_mnist_comes_with_the_package_and_is_the_published_one(tmp_path: Path) -> None:
    data = datasets.load("mnist", tmp_path, download=False)
    assert data.train_images.shape == (60000, 1, 28, 28) and data.test_images.shape == (10000, 1, 28, 28)
    assert data.train_labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert np.bincount(data.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.mean == pytest.approx((0.1307,), abs=5e-5) and data.std == pytest.approx((0.3081,), abs=5e-5)
    assert data.train_images[0, 0].sum() == 27525
    assert list(tmp_path.iterdir()) == [], "nothing is written"


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("subfolder", ["", "fashion-mnist", "FashionMNIST/raw"])
def test_raw_and_compressed_files_are_found_in_the_folder_or_below(
    synthetic_data: Callable[..., Path], write_sums: Callable[[Path], None], tmp_path: Path, suffix: str, subfolder: str
) -> None:
    source = synthetic_data("fashion_mnist", train=30, test=20)
    place = tmp_path / subfolder
    place.mkdir(parents=True, exist_ok=True)
    packers: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
    for path in (source / "fashion-mnist").glob("*.gz"):
        (place / (path.stem + suffix)).write_bytes(packers[suffix](gzip.decompress(path.read_bytes())))
    write_sums(place)
    data, expected = (datasets.load("fashion_mnist", folder, download=False) for folder in (tmp_path, source))
    assert np.array_equal(data.train_images, expected.train_images) and len(data.train_images) == 30
    assert np.array_equal(data.test_labels, expected.test_labels) and len(data.test_labels) == 20


def test_mnist_in_the_place_of_fashion_mnist_is_refused(tmp_path: Path) -> None:
    shutil.copytree(EMBEDDED, tmp_path, dirs_exist_ok=True)
    with pytest.raises(
        DataError, match=r"train-images-idx3-ubyte.xz is not the file .* expected .*md5:f4a8712d7a061bf5"
    ):
        datasets.load("fashion_mnist", tmp_path, download=False)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("damage", [lambda packed: packed[:-9], lambda packed: b"<html>" + packed, lambda packed: b""])
def test_a_damaged_compressed_file_is_named_with_what_was_expected(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes], damage: Callable[[bytes], bytes]
) -> None:
    shutil.copytree(EMBEDDED, tmp_path, dirs_exist_ok=True)
    (tmp_path / "train-images-idx3-ubyte.xz").unlink()
    (tmp_path / f"train-images-idx3-ubyte{suffix}").write_bytes(damage(pack(GOOD * 100)))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.(gz|xz) .* expected 47,040,016 bytes, md5:6bbc9a"):
        datasets.load("mnist", tmp_path, download=False)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_decompression_stops_at_the_known_size(
    write_sums: Callable[[Path], None], tmp_path: Path, suffix: str, listed: bool
) -> None:
    # A file of the user's own may hold 16 times the published bytes.
    shutil.copytree(EMBEDDED, tmp_path, dirs_exist_ok=True)
    (tmp_path / "t10k-labels-idx1-ubyte.xz").unlink()
    packers: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
    (tmp_path / f"t10k-labels-idx1-ubyte{suffix}").write_bytes(packers[suffix](bytes(16 << 20)))
    if listed:
        write_sums(tmp_path)
    most = "160,128" if listed else "10,008"
    with pytest.raises(DataError, match=rf"found more than {most} bytes; expected 10,008 bytes"):
        datasets.load("mnist", tmp_path, download=False)


def test_a_damaged_xz_body_is_named(tmp_path: Path) -> None:
    shutil.copytree(EMBEDDED, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "t10k-labels-idx1-ubyte.xz"
    packed = path.read_bytes()
    path.write_bytes(packed[:1000] + bytes(200) + packed[1200:])
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte.xz cannot be decompressed \(.*\); expected 10,008"):
        datasets.load("mnist", tmp_path, download=False)


def test_images_of_another_size_are_refused(
    synthetic_data: Callable[..., Path], write_sums: Callable[[Path], None]
) -> None:
    place = synthetic_data("fashion_mnist") / "fashion-mnist"
    for part in ("train", "t10k"):
        content = struct.pack(">4I", 0x803, 1, 2, 3) + bytes(6)
        (place / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(content))
    write_sums(place)
    with pytest.raises(DataError, match=r"holds images of \(1, 2, 3\), Fashion-MNIST has \(1, 28, 28\)"):
        datasets.load("fashion_mnist", place, download=False)
