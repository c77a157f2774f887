"""The catalog agrees with what its publishers say about each data set."""

from __future__ import annotations

from signwise.datasets import DATASETS


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
