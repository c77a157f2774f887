"""The paper's numbers: where its tables overlap, they must agree here too."""

from __future__ import annotations

import pytest

from signwise.reproduce import paper
from signwise.training import RECIPES, get_recipe

# The column "Change" of table 1, typed independently of the errors from which it follows.
CHANGES = {
    "lenet5-mnist": 0.11,
    "vgg_small-cifar10": -0.54,
    "resnet18-cifar10": -0.11,
    "wrn28_10-cifar10": 0.12,
    "resnet18-cifar100": -0.5,
    "wrn28_10-cifar100": 0.82,
}


@pytest.mark.parametrize(("name", "change"), CHANGES.items())
def test_errors_differ_by_the_papers_own_column_of_changes(name: str, change: float) -> None:
    errors = {entry.bits: entry.error for entry in paper.RESULTS if entry.recipe == name}
    assert errors[32] - errors[1] == pytest.approx(change, abs=1e-9)


def test_every_result_has_a_recipe_with_the_t_alpha_of_its_table() -> None:
    for entry in paper.RESULTS:
        assert entry.recipe in RECIPES and get_recipe(entry.recipe, entry.bits).t_alpha == entry.t_alpha


def test_tables_agree_where_they_report_the_same_experiment() -> None:
    results = {(entry.recipe, entry.bits, entry.t_alpha): entry.error for entry in paper.RESULTS}
    shared = [entry for entry in paper.T_ALPHA if (entry.recipe, 1, entry.t_alpha) in results]
    assert len(shared) == 3
    for entry in shared:
        assert results[entry.recipe, 1, entry.t_alpha] == entry.error
    own = [entry for entry in paper.COMPARISON if entry.method is None]
    assert len(own) == 5
    for compared in own:
        error = next(other.error for other in paper.RESULTS if other.recipe == compared.recipe and other.bits == 1)
        assert round(error, 1) == compared.error


def test_the_best_t_alpha_of_each_experiment_is_the_one_of_table_1() -> None:
    for name in {entry.recipe for entry in paper.T_ALPHA}:
        best = min((entry for entry in paper.T_ALPHA if entry.recipe == name), key=lambda entry: entry.error)
        assert best.t_alpha == get_recipe(name).t_alpha


def test_what_the_paper_does_not_report_is_none() -> None:
    assert paper.reported("resnet20-cifar10", 1, 0.9) is None
    found = paper.reported("vgg_small-cifar10", 1, 0.7)
    assert found is not None and found.error == 7.2
