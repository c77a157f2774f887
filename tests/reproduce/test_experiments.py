"""The experiments: the paper's tables agree where they overlap; every target's runs, their names and their cost."""

from __future__ import annotations

import pytest

from signwise.reproduce.experiments import (
    BUDGETS,
    GPU,
    PAPER_COMPARISON,
    PAPER_RESULTS,
    PAPER_T_ALPHA,
    TARGETS,
    experiments,
    few_steps,
    gpu_cost,
    images_trained,
    is_full,
    paper_error,
    run_name,
)
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
    errors = {entry.bits: entry.error for entry in PAPER_RESULTS if entry.recipe == name}
    assert errors[32] - errors[1] == pytest.approx(change, abs=1e-9)


def test_every_result_has_a_recipe_with_the_t_alpha_of_its_table() -> None:
    for entry in PAPER_RESULTS:
        assert entry.recipe in RECIPES and get_recipe(entry.recipe, entry.bits).t_alpha == entry.t_alpha


def test_tables_agree_where_they_report_the_same_experiment() -> None:
    results = {(entry.recipe, entry.bits, entry.t_alpha): entry.error for entry in PAPER_RESULTS}
    shared = [entry for entry in PAPER_T_ALPHA if (entry.recipe, 1, entry.t_alpha) in results]
    assert len(shared) == 3
    for entry in shared:
        assert results[entry.recipe, 1, entry.t_alpha] == entry.error
    own = [entry for entry in PAPER_COMPARISON if entry.method is None]
    assert len(own) == 5
    for compared in own:
        error = next(other.error for other in PAPER_RESULTS if other.recipe == compared.recipe and other.bits == 1)
        assert round(error, 1) == compared.error


def test_the_best_t_alpha_of_each_experiment_is_the_one_of_table_1() -> None:
    for name in {entry.recipe for entry in PAPER_T_ALPHA}:
        best = min((entry for entry in PAPER_T_ALPHA if entry.recipe == name), key=lambda entry: entry.error)
        assert best.t_alpha == get_recipe(name).t_alpha


def test_what_the_paper_does_not_report_is_none() -> None:
    assert paper_error("resnet20-cifar10", 1, 0.9) is None
    found = paper_error("vgg_small-cifar10", 1, 0.7)
    assert found is not None and found.error == 7.2


@pytest.mark.parametrize("budget", BUDGETS)
def test_all_is_the_union_of_the_targets_and_names_are_unique(budget: str) -> None:
    everything = experiments("all", budget)
    assert {entry for target in TARGETS for entry in experiments(target, budget)} == set(everything)
    assert len({run_name(entry) for entry in everything}) == len(everything)


def test_the_full_budget_shortens_nothing_and_covers_the_papers_tables() -> None:
    assert all(is_full(entry.changed(method="group_transform")) for entry in experiments("all", "full"))
    assert len(experiments("table1", "full")) == 12 and len(experiments("alpha", "full")) == 15


def test_the_cpu_budget_trains_lenet5_in_full_and_the_large_networks_for_hundreds_of_steps() -> None:
    found = experiments("all", "cpu")
    assert [entry for entry in found if is_full(entry)] == [
        get_recipe("lenet5-mnist", 1),
        get_recipe("lenet5-mnist", 32),
    ]
    for name in ("vgg_small-cifar10", "resnet18-cifar10", "wrn28_10-cifar10"):
        assert few_steps(name) in found and images_trained(few_steps(name)) == 300 * few_steps(name).batch_size


def test_seeds_are_trained_one_after_the_other() -> None:
    found = experiments("state-figure", "cpu", seeds=3)
    assert [entry.seed for entry in found] == [0, 1, 2]
    assert [run_name(entry) for entry in found][2] == "lenet5-mnist-1bit-2"


def test_the_cost_on_a_gpu_is_the_arithmetic_that_is_shown() -> None:
    wide = get_recipe("wrn28_10-cifar10")
    cost = gpu_cost(wide, macs=5_000_000_000)
    assert cost.steps == 400 * (50_000 // 128)
    seconds = cost.steps * 5e9 * 2 * 3 * 128 / (GPU.peak * GPU.utilization)
    assert cost.hours == pytest.approx(seconds / 3600)
    assert gpu_cost(wide, macs=1).hours == pytest.approx(cost.steps * GPU.floor / 3600)
