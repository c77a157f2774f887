"""The experiments: every target's runs, their names, and the arithmetic of their cost."""

from __future__ import annotations

import pytest

from signwise.reproduce.experiments import (
    BUDGETS,
    GPU,
    TARGETS,
    experiments,
    few_steps,
    gpu_cost,
    images_trained,
    is_full,
    run_name,
)
from signwise.training import get_recipe


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
