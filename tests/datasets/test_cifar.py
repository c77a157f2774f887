"""CIFAR-10 and CIFAR-100: both published forms, the real files, and files that are not what they should be."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from signwise import datasets
from signwise.errors import DataError

BINARY = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}
PICKLED = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
LABEL_BYTES = {"cifar10": 1, "cifar100": 2}
NAMES = sorted(BINARY)

SyntheticData = Callable[..., Path]
WriteSums = Callable[[Path], None]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pickle_folder(name: str, binary: Path, folder: Path, write_sums: WriteSums) -> None:
    """Write the binary files of a folder as pickles, named as torchvision leaves them."""
    folder.mkdir(parents=True)
    for path in binary.glob("*.bin"):
        rows = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, LABEL_BYTES[name] + 3072)
        keys = ("labels",) if name == "cifar10" else ("coarse_labels", "fine_labels")
        content = {key: rows[:, column].tolist() for column, key in enumerate(keys)}
        content["data"] = np.ascontiguousarray(rows[:, len(keys) :])
        (folder / path.stem).write_bytes(pickle.dumps(content, 2))
    write_sums(folder)


@pytest.mark.parametrize("given", ["parent", "itself"])
def test_the_binary_form_is_read_record_by_record(synthetic_data: SyntheticData, name: str, given: str):
    folder = synthetic_data(name, train=203, test=101)
    place = folder / BINARY[name]
    data = datasets.load(name, folder if given == "parent" else place, download=False)
    assert data.train_images.shape == (203, 3, 32, 32) and data.test_images.shape == (101, 3, 32, 32)
    record = LABEL_BYTES[name] + 3072
    first = next(place / file for file in ("data_batch_1.bin", "train.bin") if (place / file).exists()).read_bytes()
    for row in (0, 1, 7):
        content = first[row * record : (row + 1) * record]
        assert data.train_labels[row] == content[LABEL_BYTES[name] - 1]
        assert data.train_images[row].tobytes() == content[LABEL_BYTES[name] :]
    assert data.train_images.flags.writeable and data.test_images.flags.writeable


@pytest.mark.parametrize("given", ["parent", "itself"])
def test_the_pickled_form_gives_the_same_as_the_binary(
    synthetic_data: SyntheticData, write_sums: WriteSums, tmp_path: Path, name: str, given: str
):
    folder = synthetic_data(name, train=50, test=20)
    pickle_folder(name, folder / BINARY[name], tmp_path / PICKLED[name], write_sums)
    expected = datasets.load(name, folder, download=False)
    data = datasets.load(name, tmp_path if given == "parent" else tmp_path / PICKLED[name], download=False)
    assert np.array_equal(data.train_images, expected.train_images)
    assert np.array_equal(data.train_labels, expected.train_labels)
    assert np.array_equal(data.test_images, expected.test_images)
    assert np.array_equal(data.test_labels, expected.test_labels)


def test_a_folder_cut_at_a_whole_record_is_refused_unless_it_says_that_it_is_its_own(
    synthetic_data: SyntheticData, name: str
):
    place = synthetic_data(name) / BINARY[name]
    (place / "SHA256SUMS").unlink()
    with pytest.raises(DataError, match=r"\.bin is not the file that was expected: found .* expected (30|153),7"):
        datasets.load(name, place, download=False)


def test_a_file_with_a_broken_record_is_refused(synthetic_data: SyntheticData, write_sums: WriteSums, name: str):
    place = synthetic_data(name) / BINARY[name]
    last = max(place.glob("t*.bin"))
    last.write_bytes(last.read_bytes()[:-1])
    write_sums(place)
    with pytest.raises(DataError, match=rf"{last.name} should have whole records of 307\d bytes, found"):
        datasets.load(name, place, download=False)


def test_an_empty_file_is_refused(synthetic_data: SyntheticData, write_sums: WriteSums, name: str):
    place = synthetic_data(name) / BINARY[name]
    max(place.glob("t*.bin")).write_bytes(b"")
    write_sums(place)
    with pytest.raises(DataError, match="should have whole records"):
        datasets.load(name, place, download=False)


def test_labels_beyond_the_classes_are_refused(synthetic_data: SyntheticData, write_sums: WriteSums, name: str):
    place = synthetic_data(name) / BINARY[name]
    test = next(place / file for file in ("test_batch.bin", "test.bin") if (place / file).exists())
    test.write_bytes(b"\xff" * (LABEL_BYTES[name] + 3072))
    write_sums(place)
    with pytest.raises(DataError, match=r"test labels must be in 0.*got 255"):
        datasets.load(name, place, download=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"labels": [1]}, "should have an array 'data' of N x 3072 bytes"),
        ({"data": np.zeros((1, 3071), np.uint8), "labels": [1]}, "should have an array 'data' of N x 3072 bytes"),
        ({"data": np.zeros((1, 3072), np.uint8)}, "should have a list 'labels' of small whole numbers"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": ["cat"]}, "should have a list 'labels'"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [2**70]}, "should have a list 'labels'"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": []}, "need one label each"),
    ],
    ids=["no pixels", "too few pixels", "no labels", "text labels", "huge labels", "fewer labels"],
)
def test_pickles_of_another_content_are_refused(
    write_sums: WriteSums, tmp_path: Path, content: dict[str, object], message: str
):
    for file in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (tmp_path / file).write_bytes(pickle.dumps(content, 2))
    write_sums(tmp_path)
    with pytest.raises(DataError, match=message):
        datasets.load("cifar10", tmp_path, download=False)


def test_a_hostile_pickle_is_stopped_by_its_hash_and_where_listed_by_the_unpickler(
    write_sums: WriteSums, tmp_path: Path
):
    class Hostile:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'trace'}",)

    for file in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (tmp_path / file).write_bytes(pickle.dumps({"data": Hostile()}, 2))
    with pytest.raises(DataError, match="expected md5:c99cafc152244af753f735de768cd75f"):
        datasets.load("cifar10", tmp_path, download=False)
    write_sums(tmp_path)
    with pytest.raises(DataError, match=r"data_batch_1 .* asks for posix.system"):
        datasets.load("cifar10", tmp_path, download=False)
    assert not (tmp_path / "trace").exists()


def test_the_real_cifar10_is_read(real_data: Path):
    data = datasets.load("cifar10", real_data, download=False)
    assert data.train_images.shape == (50000, 3, 32, 32) and data.test_images.shape == (10000, 3, 32, 32)
    assert data.train_labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert data.classes[data.test_labels[0]] == "cat"
    assert np.bincount(data.train_labels).tolist() == [5000] * 10
    assert data.mean == pytest.approx((0.4914, 0.4822, 0.4465), abs=5e-5)
    assert data.std == pytest.approx((0.2470, 0.2435, 0.2616), abs=5e-5)


def test_the_real_cifar10_cut_short_is_named_with_size_and_hash(real_data: Path, tmp_path: Path):
    place = tmp_path / BINARY["cifar10"]
    place.mkdir()
    for path in (real_data / BINARY["cifar10"]).glob("*.bin"):
        (place / path.name).symlink_to(path)
    cut = place / "data_batch_1.bin"
    content = cut.read_bytes()
    cut.unlink()
    cut.write_bytes(content[:-3073])
    with pytest.raises(DataError) as caught:
        datasets.load("cifar10", tmp_path, download=False)
    assert str(cut) in str(caught.value) and "found 30,726,927 bytes" in str(caught.value)
    assert "expected 30,730,000 bytes, md5:5dd7e06a14cb22eb9f671a540d1b7c25" in str(caught.value)
    shutil.copy(real_data / BINARY["cifar10"] / "data_batch_2.bin", cut)
    with pytest.raises(DataError, match=r"data_batch_1.bin is not the file that was expected"):
        datasets.load("cifar10", tmp_path, download=False)
