"""The table of recipes is the paper's, row by row, and goes on with recipes of our own."""

from __future__ import annotations

import pytest

from signwise.errors import SignwiseError
from signwise.training import get_recipe
from signwise.training.recipes import PAPER_RECIPES

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
    found = get_recipe(*key)
    values = (found.batch_size, found.epochs, found.learning_rate, found.weight_decay, found.t_alpha)
    assert values == row
    assert (found.momentum, found.warmup_epochs) == (0.9, 5)
    assert (found.zeta_start, found.zeta_end, found.zeta_ramp) == (1, 12, 0.1)


@pytest.mark.parametrize("name", PAPER_RECIPES)
def test_factors_fall_as_the_paper_says(name: str) -> None:
    binary, full = get_recipe(name), get_recipe(name, bits=32)
    assert (binary.decay_factor, binary.decay_at) == (0.3, (0.1, 0.25, 0.4, 0.55, 0.7, 0.85))
    if name == "wrn28_10-cifar10":
        epochs = [full.warmup_epochs + fraction * (full.epochs - full.warmup_epochs) for fraction in full.decay_at]
        assert full.decay_factor == 0.2 and epochs == pytest.approx([60, 120, 160])
    else:
        assert (full.decay_factor, full.decay_at) == (0.1, (1 / 3, 2 / 3))


def test_only_images_of_objects_are_augmented_and_only_lenet_has_a_binary_first_layer() -> None:
    for name in PAPER_RECIPES:
        found = get_recipe(name)
        assert found.flip == (found.translate > 0) == (found.zoom > 0) == (found.dataset != "mnist")
        assert found.skip == ("last" if found.model == "lenet5" else "first_and_last")


def test_digits_for_microcontrollers_are_moved_and_zoomed_but_never_mirrored() -> None:
    found = get_recipe("tiny_cnn-mnist")
    assert not found.flip and found.translate > 0 and found.zoom > 0 and found.skip == "first_and_last"


def test_an_unknown_recipe_suggests_the_nearest() -> None:
    with pytest.raises(SignwiseError, match="did you mean resnet18-cifar10"):
        get_recipe("resnet18-cifar")
