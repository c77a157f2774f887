"""Loading by name: where it looks, what it downloads, and what it tells when there is nothing."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from signwise import datasets
from signwise.datasets import Dataset
from signwise.datasets.download import Download
from signwise.datasets.known_file import KnownFile
from signwise.datasets.source import Archive, Files
from signwise.errors import DataError, SignwiseError

SyntheticData = Callable[..., Path]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def silent(name: str, done: int, total: int) -> None:
    pass


def published(publisher, name: str, content: bytes) -> Download:
    publisher.files[name] = content
    return Download(f"{publisher.address}/{name}", len(content), hashlib.sha256(content).hexdigest())


def known(path: Path, content: bytes) -> KnownFile:
    return KnownFile(path.name.removesuffix(".gz"), f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))


@pytest.fixture
def cifar10(publisher, synthetic_data: SyntheticData, tmp_path: Path) -> Dataset:
    """CIFAR-10 as it would be if its publisher were this machine and its images few."""
    place = synthetic_data("cifar10", train=20, test=10) / "cifar-10-batches-bin"
    files = tuple(known(path, path.read_bytes()) for path in sorted(place.glob("*.bin")))
    packed = tmp_path / "packed.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(place, "cifar-10-batches-bin")
    download = published(publisher, "cifar-10-binary.tar.gz", packed.read_bytes())
    packed.unlink()
    layout = replace(datasets.NAMES["cifar10"].layouts[0], train=files[:5], test=files[5])
    source = Archive(folder="cifar-10-batches-bin", download=download, members=files)
    return replace(datasets.NAMES["cifar10"], layouts=(layout,), source=source)


@pytest.fixture
def fashion_mnist(publisher, synthetic_data: SyntheticData) -> Dataset:
    """Fashion-MNIST as it would be if its publisher were this machine and its images few."""
    place = synthetic_data("fashion_mnist", train=20, test=10) / "fashion-mnist"
    paths = sorted(place.glob("*.gz"))  # t10k-images, t10k-labels, train-images, train-labels
    downloads = tuple(published(publisher, path.name, path.read_bytes()) for path in paths)
    files = [known(path, gzip.decompress(path.read_bytes())) for path in paths]
    layout = replace(
        datasets.NAMES["fashion_mnist"].layouts[0],
        **dict(zip(("test_images", "test_labels", "train_images", "train_labels"), files, strict=True)),
    )
    source = Files(folder="fashion-mnist", downloads=downloads)
    return replace(datasets.NAMES["fashion_mnist"], layouts=(layout,), source=source)


def test_an_archive_is_downloaded_unpacked_and_removed_and_then_read_from_the_disk(
    publisher, cifar10: Dataset, tmp_path: Path
):
    folder = tmp_path / "new" / "cache"
    first = cifar10.load(folder, download=True, progress=silent)
    assert first.train_images.shape == (20, 3, 32, 32) and len(publisher.asked) == 1
    assert names(folder) == [".lock", "cifar-10-batches-bin"]
    second = cifar10.load(folder, download=True, progress=silent)
    assert len(publisher.asked) == 1 and np.array_equal(first.train_images, second.train_images)


def test_single_files_are_downloaded_and_only_the_missing_ones(publisher, fashion_mnist: Dataset, tmp_path: Path):
    first = fashion_mnist.load(tmp_path, download=True, progress=silent)
    assert first.train_images.shape == (20, 1, 28, 28) and len(publisher.asked) == 4
    (tmp_path / "fashion-mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    second = fashion_mnist.load(tmp_path, download=True, progress=silent)
    assert len(publisher.asked) == 5 and np.array_equal(first.test_labels, second.test_labels)


def test_a_cut_download_is_resumed_to_the_same_data(publisher, cifar10: Dataset, tmp_path: Path):
    publisher.cuts = [10_000, 20_000]
    assert len(cifar10.load(tmp_path, download=True, progress=silent).train_images) == 20
    assert publisher.asked == [None, "bytes=10000-", "bytes=30000-"]


def test_files_that_an_interrupted_unpacking_has_left_are_completed(cifar10: Dataset, tmp_path: Path):
    cifar10.load(tmp_path, download=True, progress=silent)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    assert len(cifar10.load(tmp_path, download=True, progress=silent).train_images) == 20


def test_an_archive_that_the_user_has_put_there_is_used_and_kept(publisher, cifar10: Dataset, tmp_path: Path):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(publisher.files["cifar-10-binary.tar.gz"])
    assert len(cifar10.load(tmp_path, download=True, progress=silent).train_images) == 20
    assert publisher.asked == [] and (tmp_path / "cifar-10-binary.tar.gz").exists()


def test_a_downloaded_file_that_was_spoilt_later_is_refused_and_not_overwritten(cifar10: Dataset, tmp_path: Path):
    cifar10.load(tmp_path, download=True, progress=silent)
    spoilt = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    spoilt.write_bytes(spoilt.read_bytes()[:-1] + b"?")
    with pytest.raises(DataError, match=r"test_batch\.bin is not the file .* remove it and get it again"):
        cifar10.load(tmp_path, download=True, progress=silent)


def test_no_download_unless_it_is_allowed(publisher, cifar10: Dataset, tmp_path: Path):
    with pytest.raises(DataError, match=r"CIFAR-10 is not in .*: expected cifar-10-batches-bin/data_batch_1.bin"):
        cifar10.load(tmp_path, download=False, progress=silent)
    assert publisher.asked == [] and names(tmp_path) == []


@pytest.mark.parametrize("place", ["itself", "listed"])
def test_an_incomplete_folder_of_the_users_own_is_not_completed_behind_her_back(
    publisher, cifar10: Dataset, synthetic_data: SyntheticData, place: str
):
    folder = synthetic_data("cifar10")
    own = folder / "cifar-10-batches-bin"
    (own / "data_batch_2.bin").unlink()
    with pytest.raises(DataError, match=r"lacks data_batch_2\.bin of CIFAR-10"):
        cifar10.load(own if place == "itself" else folder, download=True, progress=silent)
    assert publisher.asked == []


def test_a_folder_that_cannot_be_written_to_is_named(cifar10: Dataset, tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"file/cache cannot be written to: Not a directory; choose another"):
        cifar10.load(tmp_path / "file" / "cache", download=True, progress=silent)


def test_processes_that_start_together_download_once(publisher, cifar10: Dataset, tmp_path: Path):
    program = f"""
from dataclasses import replace
from pathlib import Path
from signwise import datasets
from signwise.datasets.download import Download
from signwise.datasets.known_file import KnownFile
from signwise.datasets.source import Archive
original = datasets.NAMES["cifar10"]
files = {cifar10.layouts[0].files!r}
layout = replace(original.layouts[0], train=files[:5], test=files[5])
dataset = replace(original, layouts=(layout,), source={cifar10.source!r})
data = dataset.load(Path({str(tmp_path / "cache")!r}), download=True, progress=lambda *_: None)
assert len(data.train_images) == 20
"""
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert len(publisher.asked) == 1


def test_the_folder_comes_from_the_argument_else_the_environment_else_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("SIGNWISE_DATA", raising=False)
    assert datasets.data_folder() == Path.home() / ".cache" / "signwise"
    monkeypatch.setenv("SIGNWISE_DATA", str(tmp_path))
    assert datasets.data_folder() == tmp_path
    assert datasets.data_folder("other") == Path("other")
    assert datasets.data_folder("~/x") == Path.home() / "x"


def test_the_environment_names_the_folder_to_load_from(monkeypatch: pytest.MonkeyPatch, synthetic_data: SyntheticData):
    monkeypatch.setenv("SIGNWISE_DATA", str(synthetic_data("cifar100", train=100, test=100)))
    assert len(datasets.load("cifar100", download=False).train_images) == 100


def test_mnist_in_the_folder_goes_before_the_embedded_one(synthetic_data: SyntheticData):
    assert len(datasets.load("mnist", synthetic_data("mnist", train=30)).train_images) == 30


@pytest.mark.parametrize(
    ("name", "hint"),
    [("cifar-10", "did you mean cifar10"), ("fashionmnist", "fashion_mnist"), ("?", "choose from mnist,")],
)
def test_an_unknown_name_is_answered_with_the_nearest_one(name: str, hint: str):
    with pytest.raises(SignwiseError, match=f"there is no data set .*{hint}"):
        datasets.load(name)


def test_all_of_it_works_without_torch(synthetic_data: SyntheticData):
    folder = synthetic_data("cifar10")
    program = f"""
import sys
sys.modules["torch"] = None
from signwise import datasets
datasets.load("cifar10", {str(folder)!r}, download=False).mean
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_catalog_tells_shape_and_classes_before_anything_is_loaded():
    told = {name: (dataset.image_shape, len(dataset.classes)) for name, dataset in datasets.NAMES.items()}
    gray, colour = (1, 28, 28), (3, 32, 32)
    assert told == {
        "mnist": (gray, 10),
        "fashion_mnist": (gray, 10),
        "cifar10": (colour, 10),
        "cifar100": (colour, 100),
    }
    assert all(len(set(dataset.classes)) == len(dataset.classes) for dataset in datasets.NAMES.values())


def test_the_publishers_files_have_room_for_all_their_images():
    sizes = {name: sum(file.size or 0 for file in dataset.layouts[0].files) for name, dataset in datasets.NAMES.items()}
    idx = 70_000 * (784 + 1) + 2 * (16 + 8)
    assert sizes == {"mnist": idx, "fashion_mnist": idx, "cifar10": 60_000 * 3073, "cifar100": 60_000 * 3074}
