"""Recipes: the paper's table, row by row, and how a row is changed."""

from __future__ import annotations

import dataclasses
import math

import pytest

from signwise.errors import SignwiseError
from signwise.training import NAMES, Recipe, recipe

# Batch, epochs, learning rate, weight decay and T_α of the paper's table of hyperparameters.
TABLE = {
    ("lenet5-mnist", 32): (100, 200, 0.01, 1e-4, None),
    ("lenet5-mnist", 1): (100, 200, 0.01, 1e-3, 0.9),
    ("vgg_small-cifar10", 32): (128, 300, 0.1, 5e-4, None),
    ("vgg_small-cifar10", 1): (128, 300, 0.05, 1e-3, 0.0),
    ("resnet18-cifar10", 32): (128, 300, 0.1, 5e-4, None),
    ("resnet18-cifar10", 1): (128, 400, 0.05, 1e-3, 0.9),
    ("resnet18-cifar100", 32): (128, 300, 0.1, 5e-4, None),
    ("resnet18-cifar100", 1): (128, 400, 0.05, 1e-3, 0.9),
    ("wrn28_10-cifar10", 32): (128, 200, 0.1, 5e-4, None),
    ("wrn28_10-cifar10", 1): (128, 400, 0.05, 1e-3, 0.9),
    ("wrn28_10-cifar100", 32): (128, 300, 0.1, 5e-4, None),
    ("wrn28_10-cifar100", 1): (128, 400, 0.05, 1e-3, 0.9),
}


@pytest.mark.parametrize(("key", "row"), TABLE.items(), ids=lambda value: str(value))
def test_every_row_of_the_papers_table_is_a_recipe(key: tuple[str, int], row: tuple[object, ...]) -> None:
    found = recipe(*key)
    values = (found.batch_size, found.epochs, found.learning_rate, found.weight_decay, found.t_alpha)
    assert values == row
    assert (found.momentum, found.warmup_epochs) == (0.9, 5)
    assert (found.zeta_start, found.zeta_end, found.zeta_ramp) == (1, 12, 0.1)


@pytest.mark.parametrize("name", NAMES)
def test_factors_fall_as_the_paper_says(name: str) -> None:
    binary, full = recipe(name), recipe(name, bits=32)
    assert (binary.decay_factor, binary.decay_at) == (0.3, (0.1, 0.25, 0.4, 0.55, 0.7, 0.85))
    if name == "wrn28_10-cifar10":
        epochs = [full.warmup_epochs + fraction * (full.epochs - full.warmup_epochs) for fraction in full.decay_at]
        assert full.decay_factor == 0.2 and epochs == pytest.approx([60, 120, 160])
    else:
        assert (full.decay_factor, full.decay_at) == (0.1, (1 / 3, 2 / 3))


def test_only_images_of_objects_are_augmented_and_only_lenet_has_a_binary_first_layer() -> None:
    for name in NAMES:
        found = recipe(name)
        assert found.flip == (found.translate > 0) == (found.zoom > 0) == (found.dataset != "mnist")
        assert found.skip == ("last" if found.model == "lenet5" else "first_and_last")


def test_a_shorter_run_shortens_its_warm_up_in_proportion() -> None:
    assert recipe("lenet5-mnist").changed(epochs=20).warmup_epochs == 0.5
    assert recipe("lenet5-mnist").changed(epochs=20, warmup_epochs=3).warmup_epochs == 3
    assert recipe("lenet5-mnist").changed(epochs=400).warmup_epochs == 5


def test_a_quick_look_tests_on_as_many_images_unless_told_otherwise() -> None:
    assert recipe("lenet5-mnist").changed(train_samples=512).test_samples == 512
    assert recipe("lenet5-mnist").changed(train_samples=512, test_samples=10).test_samples == 10


def test_a_recipe_survives_its_record() -> None:
    for name in NAMES:
        for bits in (1, 32):
            original = recipe(name, bits).changed(seed=3)
            assert Recipe.from_json(original.to_json()) == original


def test_a_record_that_is_older_than_a_setting_takes_its_default() -> None:
    record = recipe("lenet5-mnist").to_json()
    del record["reestimate_batch_norm"]
    assert Recipe.from_json(record | {"of_the_future": 1}) == recipe("lenet5-mnist")


def test_a_record_without_what_it_needs_is_refused() -> None:
    record = recipe("lenet5-mnist").to_json()
    del record["epochs"]
    with pytest.raises(SignwiseError, match="incomplete"):
        Recipe.from_json(record)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bits", 2),
        ("epochs", 0),
        ("batch_size", 0),
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("weight_decay", -1e-3),
        ("momentum", 1.0),
        ("warmup_epochs", 201),
        ("decay_factor", -1),
        ("decay_at", (0.5, 0.4)),
        ("decay_at", (0.5, 1.4)),
        ("t_alpha", 1.5),
        ("t_alpha", None),
        ("zeta_start", 13),
        ("skip", "first"),
        ("method", "magic"),
        ("translate", -1),
        ("train_samples", 0),
        ("seed", -1),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(SignwiseError, match=f"{name} must be .*, got "):
        dataclasses.replace(recipe("lenet5-mnist"), **{name: value})


def test_full_precision_has_no_t_alpha() -> None:
    with pytest.raises(SignwiseError, match="t_alpha must be left out with 32 bits"):
        recipe("lenet5-mnist", bits=32).changed(t_alpha=0.5)


def test_an_unknown_recipe_suggests_the_nearest() -> None:
    with pytest.raises(SignwiseError, match="did you mean resnet18-cifar10"):
        recipe("resnet18-cifar")
    with pytest.raises(SignwiseError, match="has no setting epoch"):
        recipe("lenet5-mnist").changed(epoch=1)
