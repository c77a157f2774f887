"""Display names: every network has one, and unknown names stand for themselves."""

from __future__ import annotations

from signwise import datasets, models, titles
from signwise.training.recipe import METHODS


def test_every_network_and_data_set_has_a_title() -> None:
    assert set(titles.NETWORKS) == set(models.MODELS)
    assert all(titles.dataset_title(name) != name for name in datasets.DATASETS)


def test_titles_tell_methods_apart() -> None:
    assert len({titles.method_title(method) for method in METHODS}) == len(METHODS)


def test_an_unknown_name_is_its_own_title() -> None:
    assert titles.experiment_title("mine", "my_photos") == "mine on my_photos"
