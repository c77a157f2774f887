"""Display names of networks, data sets and methods, for tables and figures."""

from __future__ import annotations

from signwise import datasets

NETWORKS = {
    "lenet5": "LeNet5",
    "vgg_small": "VGG-Small",
    "resnet18": "ResNet-18",
    "resnet20": "ResNet-20",
    "wrn28_10": "WRN-28-10",
}
_METHODS = {
    "group_transform": "this method",
    "binary_connect": "BinaryConnect",
    "scaled_sign": "scaled sign (McDonnell)",
    "straight_through": "straight-through sign",
}


def network_title(model: str) -> str:
    """A network's display name.

    Example:
        >>> network_title("resnet18"), network_title("my_network")
        ('ResNet-18', 'my_network')
    """
    return NETWORKS.get(model, model)


def dataset_title(dataset: str) -> str:
    """A data set's display name.

    Example:
        >>> dataset_title("cifar10")
        'CIFAR-10'
    """
    return datasets.DATASETS[dataset].title if dataset in datasets.DATASETS else dataset


def method_title(method: str) -> str:
    """A binarization method's display name."""
    return _METHODS.get(method, method)


def experiment_title(model: str, dataset: str) -> str:
    """A network and its data set.

    Example:
        >>> experiment_title("lenet5", "mnist")
        'LeNet5 on MNIST'
    """
    return f"{network_title(model)} on {dataset_title(dataset)}"
