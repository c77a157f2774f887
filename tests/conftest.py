"""Shared fixtures: synthetic data in the publishers' layouts, the real data, and a recipe that runs in a second.

The real MNIST, CIFAR-10 and CIFAR-100 come from the folder that the environment variable SIGNWISE_DATA names; the tests
that need them are skipped without it. No other test sees the variable.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

if TYPE_CHECKING:
    from signwise.training import Recipe

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

SyntheticData = Callable[..., Path]

REAL_DATA = os.environ.pop("SIGNWISE_DATA", None)

# More threads are slower on models of this size. Set here because PyTorch reads it on import, and other conftest.py
# files import PyTorch.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def synthetic_data(tmp_path_factory: pytest.TempPathFactory) -> SyntheticData:
    """``synthetic_data(name, train=200, test=100, seed=0)`` writes a data set and returns its folder.

    The folder has the publisher's layout, which ``signwise.datasets.load(name, folder)`` and the command line read.
    The images are noise around one pattern per class, so that they can be learned.
    """

    def write(name: str, train: int = 200, test: int = 100, seed: int = 0) -> Path:
        folder = tmp_path_factory.mktemp(name)
        {"mnist": _mnist, "fashion_mnist": _fashion_mnist, "cifar10": _cifar10, "cifar100": _cifar100}[name](
            folder, train, test, np.random.default_rng(seed)
        )
        return folder

    return write


@pytest.fixture(scope="session")
def digits(synthetic_data: SyntheticData) -> Path:
    """A folder with 200 training and 100 test images in MNIST's layout."""
    return synthetic_data("mnist", train=200, test=100)


@pytest.fixture(scope="session")
def small() -> Recipe:
    """LeNet5 for 40 steps."""
    from signwise.training import get_recipe  # not above: the tests of the runtime need no PyTorch

    return get_recipe("lenet5-mnist").changed(epochs=4, batch_size=20)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real MNIST, CIFAR-10 and CIFAR-100."""
    if not REAL_DATA:
        pytest.skip("SIGNWISE_DATA names no folder with the real data sets")
    folder = Path(REAL_DATA)
    missing = [name for name in ("cifar-10-batches-bin", "cifar-100-binary") if not (folder / name).is_dir()]
    if missing:
        pytest.skip(f"SIGNWISE_DATA names {folder}, which lacks {' and '.join(missing)}")
    return folder


@pytest.fixture(scope="session")
def write_sums() -> Callable[[Path], None]:
    """``write_sums(folder)`` lists the files of a folder in SHA256SUMS, as sha256sum does."""
    return _write_sums


@pytest.fixture(scope="session")
def benchmark_script() -> Callable[[str], ModuleType]:
    """``benchmark_script(name)`` imports a script from ``benchmarks/``, which is not a package."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    return load


def _write_sums(folder: Path) -> None:
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def _draw(
    count: int, classes: int, shape: tuple[int, int, int], rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Images of (count, *shape) bytes and their labels."""
    patterns = np.random.default_rng(classes).integers(0, 256, (classes, *shape))  # the same for training and test
    labels = rng.permutation(np.arange(count) % classes)
    noise = rng.integers(0, 256, (count, *shape))
    return ((patterns[labels] + noise) // 2).astype(np.uint8), labels.astype(np.uint8)


def _mnist(folder: Path, train: int, test: int, rng: np.random.Generator, *, name: str = "mnist") -> None:
    place = folder / name
    place.mkdir()
    for part, count in (("train", train), ("t10k", test)):
        images, labels = _draw(count, 10, (1, 28, 28), rng)
        for kind, header, content in (
            ("images-idx3", struct.pack(">4I", 0x803, count, 28, 28), images),
            ("labels-idx1", struct.pack(">2I", 0x801, count), labels),
        ):
            (place / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + content.tobytes(), mtime=0))
    _write_sums(place)


def _fashion_mnist(folder: Path, train: int, test: int, rng: np.random.Generator) -> None:
    _mnist(folder, train, test, rng, name="fashion-mnist")


def _cifar10(folder: Path, train: int, test: int, rng: np.random.Generator) -> None:
    place = folder / "cifar-10-batches-bin"
    place.mkdir()
    images, labels = _draw(train, 10, (3, 32, 32), rng)
    records = np.hstack([labels[:, None], images.reshape(train, -1)])
    for number, batch in enumerate(np.array_split(records, 5), start=1):
        (place / f"data_batch_{number}.bin").write_bytes(batch.tobytes())
    images, labels = _draw(test, 10, (3, 32, 32), rng)
    (place / "test_batch.bin").write_bytes(np.hstack([labels[:, None], images.reshape(test, -1)]).tobytes())
    _write_sums(place)


def _cifar100(folder: Path, train: int, test: int, rng: np.random.Generator) -> None:
    place = folder / "cifar-100-binary"
    place.mkdir()
    for part, count in (("train", train), ("test", test)):
        images, fine = _draw(count, 100, (3, 32, 32), rng)
        records = np.hstack([(fine // 5)[:, None], fine[:, None], images.reshape(count, -1)])
        (place / f"{part}.bin").write_bytes(records.tobytes())
    _write_sums(place)
