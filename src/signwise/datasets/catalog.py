"""What a data set is, and the four that the library knows, with the hash of every file in every published form.

A data set has layouts, the forms in which its files are published, and a source to download them from. Loading looks
for a complete layout in the user's folder, and downloads one otherwise.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from signwise.datasets.archive import Archive
from signwise.datasets.cifar import BinaryLayout, PickledLayout
from signwise.datasets.download import Download, Files, ProgressCallback, Source
from signwise.datasets.idx import IdxLayout
from signwise.datasets.images import ImageData, Split
from signwise.datasets.known_file import SUMS, KnownFile
from signwise.errors import DataError

DATA_VARIABLE = "SIGNWISE_DATA"
"""The environment variable that names the folder of the data sets."""


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """``folder`` if given, else the value of ``SIGNWISE_DATA``, else ``~/.cache/signwise``.

    Example:
        >>> data_folder("images").name
        'images'
    """
    chosen = folder or os.environ.get(DATA_VARIABLE)
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "signwise"


class Layout(Protocol):
    """One form in which the files of a data set are published."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The usual names of the folder."""

    @property
    def files(self) -> tuple[KnownFile, ...]:
        """The files in it."""

    def missing(self, folder: Path) -> list[str]:
        """The names of the files that ``folder`` lacks."""

    def read(self, folder: Path) -> tuple[Split, Split]:
        """Read and check the files in ``folder``: the training split and the test split."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A published data set of images.

    Args:
        name: the name on the command line and in recipes.
        title: the name in print.
        classes: the names of the classes.
        image_shape: (C, H, W) of an image.
        layouts: the forms in which the files are published, the preferred one first.
        source: where to download the files; None if they come with the package.
        embedded: the folder in the package; None if the files are downloaded.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    image_shape: tuple[int, int, int]
    layouts: tuple[Layout, ...]
    source: Source | None = None
    embedded: Path | None = None

    def load(self, folder: Path, *, download: bool, progress: ProgressCallback) -> ImageData:
        """Read the data set from ``folder`` or one of its subfolders; download it first if it is missing.

        Args:
            folder: the folder with the files, or its parent.
            download: whether to download missing files.
            progress: called while downloading.

        Raises:
            DataError: if the data set is missing, incomplete, or not the published one.
        """
        found = self._find(folder)
        if found is None and self.embedded is not None:
            found = self.layouts[0], self.embedded
        if found is None and self.source is not None and download:
            with _locked(folder):
                # Another process may have fetched it in the meantime.
                if self._find(folder) is None:
                    self.source.fetch(folder, progress)
            found = self._find(folder)
        if found is None:
            raise DataError(self._absence(folder))
        layout, place = found
        train, test = layout.read(place)
        if train.images.shape[1:] != self.image_shape:
            raise DataError(f"{place} holds images of {train.images.shape[1:]}, {self.title} has {self.image_shape}")
        return ImageData(name=self.name, classes=self.classes, train=train, test=test)

    def _find(self, folder: Path) -> tuple[Layout, Path] | None:
        """The first complete layout in ``folder``."""
        for layout in self.layouts:
            for place in (folder, *(folder / name for name in layout.folders)):
                missing = layout.missing(place)
                if not missing:
                    return layout, place
                # Complete an interrupted download, but never silently add to a folder of the user's own.
                own = place == folder or (place / SUMS).exists()
                if own and len(missing) < len(layout.files):
                    raise DataError(f"{place} lacks {', '.join(missing)} of {self.title}")
        return None

    def _absence(self, folder: Path) -> str:
        forms = " or ".join(f"{layout.folders[0]}/{layout.files[0].name}" for layout in self.layouts)
        return (
            f"{self.title} is not in {folder}: expected {forms} and the files beside it; "
            f"allow the download, or name the folder that has them (also by {DATA_VARIABLE})"
        )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create ``folder`` if needed, and hold its lock, so that one process at a time fills it.

    The processes of a distributed training start together and need the same download: the first fetches it, the others
    find it.
    """
    lock = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise DataError(
            f"{folder} cannot be written to: {error.strerror}; choose another with {DATA_VARIABLE}"
        ) from error
    with file:
        # Windows has no flock, and some network folders refuse it. Without the lock a file may be downloaded twice, but
        # never half: it gets its name only when it is complete.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


_FASHION_ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_CIFAR_ADDRESS = "https://www.cs.toronto.edu/~kriz"

MNIST = Dataset(
    name="mnist",
    title="MNIST",
    classes=tuple("0123456789"),
    image_shape=(1, 28, 28),
    layouts=(
        IdxLayout(
            folders=("mnist", "MNIST/raw"),
            train=(
                KnownFile("train-images-idx3-ubyte", "md5:6bbc9ace898e44ae57da46a324031adb", 47_040_016),
                KnownFile("train-labels-idx1-ubyte", "md5:a25bea736e30d166cdddb491f175f624", 60_008),
            ),
            test=(
                KnownFile("t10k-images-idx3-ubyte", "md5:2646ac647ad5339dbf082846283269ea", 7_840_016),
                KnownFile("t10k-labels-idx1-ubyte", "md5:27ae3e4e09519cfbb04c329615203637", 10_008),
            ),
        ),
    ),
    embedded=Path(__file__).parent / "embedded",
)

FASHION_MNIST = Dataset(
    name="fashion_mnist",
    title="Fashion-MNIST",
    classes=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    image_shape=(1, 28, 28),
    layouts=(
        IdxLayout(
            folders=("fashion-mnist", "FashionMNIST/raw"),
            train=(
                KnownFile("train-images-idx3-ubyte", "md5:f4a8712d7a061bf5bd6d2ca38dc4d50a", 47_040_016),
                KnownFile("train-labels-idx1-ubyte", "md5:9018921c3c673c538a1fc5bad174d6f9", 60_008),
            ),
            test=(
                KnownFile("t10k-images-idx3-ubyte", "md5:8181f5470baa50b63fa0f6fddb340f0a", 7_840_016),
                KnownFile("t10k-labels-idx1-ubyte", "md5:15d484375f8d13e6eb1aabb0c3f46965", 10_008),
            ),
        ),
    ),
    source=Files(
        folder="fashion-mnist",
        downloads=(
            Download(
                f"{_FASHION_ADDRESS}/train-images-idx3-ubyte.gz",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            Download(
                f"{_FASHION_ADDRESS}/train-labels-idx1-ubyte.gz",
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            Download(
                f"{_FASHION_ADDRESS}/t10k-images-idx3-ubyte.gz",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            Download(
                f"{_FASHION_ADDRESS}/t10k-labels-idx1-ubyte.gz",
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ),
    ),
)

_CIFAR10_BINARY = BinaryLayout(
    folders=("cifar-10-batches-bin",),
    train=tuple(
        KnownFile(f"data_batch_{number}.bin", f"md5:{md5}", 30_730_000)
        for number, md5 in enumerate(
            (
                "5dd7e06a14cb22eb9f671a540d1b7c25",
                "5ea93a67294ea407fff1d09f752e9692",
                "942cd6a4bcdd0dd3c604fbe906cb4421",
                "ae636b3ba5c66a11e91e8cb52e771fcb",
                "53f37980c15c3d472c316c40844f3f0d",
            ),
            start=1,
        )
    ),
    test=KnownFile("test_batch.bin", "md5:803d5f7f4d78ea53de84dbe85f74fb6d", 30_730_000),
    label_bytes=1,
)

_CIFAR10_PICKLED = PickledLayout(
    folders=("cifar-10-batches-py",),
    train=tuple(
        KnownFile(f"data_batch_{number}", f"md5:{md5}")
        for number, md5 in enumerate(
            (
                "c99cafc152244af753f735de768cd75f",
                "d4bba439e000b95fd0a9bffe97cbabec",
                "54ebc095f3ab1f0389bbae665268c751",
                "634d18415352ddfa80567beed471001a",
                "482c414d41f54cd18b22e5b47cb7c3cb",
            ),
            start=1,
        )
    ),
    test=KnownFile("test_batch", "md5:40351d587109b95175f43aff81a1287e"),
    labels_key="labels",
)

CIFAR10 = Dataset(
    name="cifar10",
    title="CIFAR-10",
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    image_shape=(3, 32, 32),
    layouts=(_CIFAR10_BINARY, _CIFAR10_PICKLED),
    source=Archive(
        folder="cifar-10-batches-bin",
        download=Download(
            f"{_CIFAR_ADDRESS}/cifar-10-binary.tar.gz",
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
        members=_CIFAR10_BINARY.files,
    ),
)

_CIFAR100_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""

_CIFAR100_BINARY = BinaryLayout(
    folders=("cifar-100-binary",),
    train=(
        KnownFile("train.bin", "sha256:f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29", 153_700_000),
    ),
    test=KnownFile("test.bin", "sha256:d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a", 30_740_000),
    label_bytes=2,
)

_CIFAR100_PICKLED = PickledLayout(
    folders=("cifar-100-python",),
    train=(KnownFile("train", "md5:16019d7e3df5f24257cddd939b257f8d"),),
    test=KnownFile("test", "md5:f0ef6b0ae62326f3e7ffdfab6717acfc"),
    labels_key="fine_labels",
)

CIFAR100 = Dataset(
    name="cifar100",
    title="CIFAR-100",
    classes=tuple(_CIFAR100_CLASSES.split()),
    image_shape=(3, 32, 32),
    layouts=(_CIFAR100_BINARY, _CIFAR100_PICKLED),
    source=Archive(
        folder="cifar-100-binary",
        download=Download(
            f"{_CIFAR_ADDRESS}/cifar-100-binary.tar.gz",
            168_513_733,
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
        members=_CIFAR100_BINARY.files,
    ),
)

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in (MNIST, FASHION_MNIST, CIFAR10, CIFAR100)}
"""The data sets by the names that the command line and the recipes use."""
