"""Loading by name: where it looks, what it downloads, what it says when it finds nothing; and the catalog's facts."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from signwise import datasets
from signwise.datasets import DATASETS, Dataset
from signwise.datasets.archive import Archive
from signwise.datasets.cifar import BinaryLayout
from signwise.datasets.download import Download, Files
from signwise.datasets.idx import IdxLayout
from signwise.datasets.known_file import KnownFile
from signwise.errors import DataError, SignwiseError

if TYPE_CHECKING:
    from tests.datasets.conftest import Publisher

SyntheticData = Callable[..., Path]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def silent(name: str, done: int, total: int) -> None:
    pass


def published(publisher: Publisher, name: str, content: bytes) -> Download:
    publisher.files[name] = content
    return Download(f"{publisher.address}/{name}", len(content), hashlib.sha256(content).hexdigest())


def known(path: Path, content: bytes) -> KnownFile:
    return KnownFile(path.name.removesuffix(".gz"), f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))


@pytest.fixture
def cifar10(publisher: Publisher, synthetic_data: SyntheticData, tmp_path: Path) -> Dataset:
    """CIFAR-10 as it would be if its publisher were this machine and its images few."""
    place = synthetic_data("cifar10", train=20, test=10) / "cifar-10-batches-bin"
    files = tuple(known(path, path.read_bytes()) for path in sorted(place.glob("*.bin")))
    packed = tmp_path / "packed.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(place, "cifar-10-batches-bin")
    download = published(publisher, "cifar-10-binary.tar.gz", packed.read_bytes())
    packed.unlink()
    layout = BinaryLayout(folders=("cifar-10-batches-bin",), train=files[:5], test=files[5], label_bytes=1)
    source = Archive(folder="cifar-10-batches-bin", download=download, members=files)
    return replace(DATASETS["cifar10"], layouts=(layout,), source=source)


@pytest.fixture
def fashion_mnist(publisher: Publisher, synthetic_data: SyntheticData) -> Dataset:
    """Fashion-MNIST as it would be if its publisher were this machine and its images few."""
    place = synthetic_data("fashion_mnist", train=20, test=10) / "fashion-mnist"
    paths = sorted(place.glob("*.gz"))  # t10k-images, t10k-labels, train-images, train-labels
    downloads = tuple(published(publisher, path.name, path.read_bytes()) for path in paths)
    test_images, test_labels, *train = [known(path, gzip.decompress(path.read_bytes())) for path in paths]
    layout = IdxLayout(folders=("fashion-mnist",), train=(train[0], train[1]), test=(test_images, test_labels))
    source = Files(folder="fashion-mnist", downloads=downloads)
    return replace(DATASETS["fashion_mnist"], layouts=(layout,), source=source)


def test_an_archive_is_downloaded_unpacked_and_removed_and_then_read_from_the_disk(
    publisher: Publisher, cifar10: Dataset, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "cache"
    first = cifar10.load(folder, download=True, progress=silent)
    assert first.train_images.shape == (20, 3, 32, 32) and len(publisher.asked) == 1
    assert names(folder) == [".lock", "cifar-10-batches-bin"]
    second = cifar10.load(folder, download=True, progress=silent)
    assert len(publisher.asked) == 1 and np.array_equal(first.train_images, second.train_images)


def test_single_files_are_downloaded_and_only_the_missing_ones(
    publisher: Publisher, fashion_mnist: Dataset, tmp_path: Path
) -> None:
    first = fashion_mnist.load(tmp_path, download=True, progress=silent)
    assert first.train_images.shape == (20, 1, 28, 28) and len(publisher.asked) == 4
    (tmp_path / "fashion-mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    second = fashion_mnist.load(tmp_path, download=True, progress=silent)
    assert len(publisher.asked) == 5 and np.array_equal(first.test_labels, second.test_labels)


def test_a_cut_download_is_resumed_to_the_same_data(publisher: Publisher, cifar10: Dataset, tmp_path: Path) -> None:
    publisher.cuts = [10_000, 20_000]
    assert len(cifar10.load(tmp_path, download=True, progress=silent).train_images) == 20
    assert publisher.asked == [None, "bytes=10000-", "bytes=30000-"]


def test_an_interrupted_unpacking_is_completed(cifar10: Dataset, tmp_path: Path) -> None:
    cifar10.load(tmp_path, download=True, progress=silent)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    assert len(cifar10.load(tmp_path, download=True, progress=silent).train_images) == 20


def test_an_archive_of_the_users_own_is_used_and_kept(publisher: Publisher, cifar10: Dataset, tmp_path: Path) -> None:
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(publisher.files["cifar-10-binary.tar.gz"])
    assert len(cifar10.load(tmp_path, download=True, progress=silent).train_images) == 20
    assert publisher.asked == [] and (tmp_path / "cifar-10-binary.tar.gz").exists()


def test_a_downloaded_file_that_was_spoilt_later_is_refused_and_not_overwritten(
    cifar10: Dataset, tmp_path: Path
) -> None:
    cifar10.load(tmp_path, download=True, progress=silent)
    spoilt = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    spoilt.write_bytes(spoilt.read_bytes()[:-1] + b"?")
    with pytest.raises(DataError, match=r"test_batch\.bin is not the file .* remove it and get it again"):
        cifar10.load(tmp_path, download=True, progress=silent)


def test_nothing_is_downloaded_without_permission(publisher: Publisher, cifar10: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"CIFAR-10 is not in .*: expected cifar-10-batches-bin/data_batch_1.bin"):
        cifar10.load(tmp_path, download=False, progress=silent)
    assert publisher.asked == [] and names(tmp_path) == []


@pytest.mark.parametrize("place", ["itself", "listed"])
def test_an_incomplete_folder_of_the_users_own_is_refused_and_not_completed(
    publisher: Publisher, cifar10: Dataset, synthetic_data: SyntheticData, place: str
) -> None:
    folder = synthetic_data("cifar10")
    own = folder / "cifar-10-batches-bin"
    (own / "data_batch_2.bin").unlink()
    with pytest.raises(DataError, match=r"lacks data_batch_2\.bin of CIFAR-10"):
        cifar10.load(own if place == "itself" else folder, download=True, progress=silent)
    assert publisher.asked == []


def test_a_folder_that_cannot_be_written_to_is_named(cifar10: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"file/cache cannot be written to: Not a directory; choose another"):
        cifar10.load(tmp_path / "file" / "cache", download=True, progress=silent)


def test_processes_that_start_together_download_once(publisher: Publisher, cifar10: Dataset, tmp_path: Path) -> None:
    program = f"""
from dataclasses import replace
from pathlib import Path
from signwise import datasets
from signwise.datasets.archive import Archive
from signwise.datasets.download import Download
from signwise.datasets.known_file import KnownFile
original = datasets.DATASETS["cifar10"]
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
) -> None:
    monkeypatch.delenv("SIGNWISE_DATA", raising=False)
    assert datasets.data_folder() == Path.home() / ".cache" / "signwise"
    monkeypatch.setenv("SIGNWISE_DATA", str(tmp_path))
    assert datasets.data_folder() == tmp_path
    assert datasets.data_folder("other") == Path("other")
    assert datasets.data_folder("~/x") == Path.home() / "x"


def test_the_environment_names_the_folder_to_load_from(
    monkeypatch: pytest.MonkeyPatch, synthetic_data: SyntheticData
) -> None:
    monkeypatch.setenv("SIGNWISE_DATA", str(synthetic_data("cifar100", train=100, test=100)))
    assert len(datasets.load("cifar100", download=False).train_images) == 100


def test_mnist_in_the_folder_takes_precedence_over_the_embedded_one(synthetic_data: SyntheticData) -> None:
    assert len(datasets.load("mnist", synthetic_data("mnist", train=30)).train_images) == 30


@pytest.mark.parametrize(
    ("name", "hint"),
    [("cifar-10", "did you mean cifar10"), ("fashionmnist", "fashion_mnist"), ("?", "choose from mnist,")],
)
def test_the_error_for_an_unknown_name_suggests_the_nearest_one(name: str, hint: str) -> None:
    with pytest.raises(SignwiseError, match=f"there is no data set .*{hint}"):
        datasets.load(name)


def test_loading_works_without_torch(synthetic_data: SyntheticData) -> None:
    folder = synthetic_data("cifar10")
    program = f"""
import sys
sys.modules["torch"] = None
from signwise import datasets
datasets.load("cifar10", {str(folder)!r}, download=False).mean
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_shape_and_classes_are_known_before_anything_is_loaded() -> None:
    known = {name: (dataset.image_shape, len(dataset.classes)) for name, dataset in DATASETS.items()}
    gray, colour = (1, 28, 28), (3, 32, 32)
    assert known == {
        "mnist": (gray, 10),
        "fashion_mnist": (gray, 10),
        "cifar10": (colour, 10),
        "cifar100": (colour, 100),
    }
    assert all(len(set(dataset.classes)) == len(dataset.classes) for dataset in DATASETS.values())


def test_the_published_files_have_room_for_all_their_images() -> None:
    sizes = {name: sum(file.size or 0 for file in dataset.layouts[0].files) for name, dataset in DATASETS.items()}
    idx = 70_000 * (784 + 1) + 2 * (16 + 8)
    assert sizes == {"mnist": idx, "fashion_mnist": idx, "cifar10": 60_000 * 3073, "cifar100": 60_000 * 3074}
