"""The plan: what is recorded is skipped, what was cut goes on, what runs is left alone."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from signwise.reproduce.naming import is_full, run_name
from signwise.reproduce.record import Record
from signwise.reproduce.workload import images_trained

from signwise.reproduce.experiments import BUDGETS, TARGETS, experiments, trial
from signwise.reproduce.plan import finished_unrecorded, plan
from signwise.training import Recipe, recipe


def _cut(run: Path, to: Path, lines: int = 1) -> None:
    """A copy of a run as a kill leaves it after so many epochs."""
    shutil.copytree(run, to)
    config = json.loads((to / "config.json").read_text())
    del config["finished"], config["result"]
    (to / "config.json").write_text(json.dumps(config))
    rows = (to / "metrics.jsonl").read_text().splitlines(keepends=True)
    (to / "metrics.jsonl").write_text("".join(rows[:lines]))


def test_a_run_is_new_until_its_folder_or_record_says_otherwise(
    small: Recipe, small_run: Path, tmp_path: Path, made_up: Callable[..., Record]
) -> None:
    (new,) = plan([small], [], tmp_path, lambda recipe: 0.5)
    assert new.status == "new" and new.needs_training and new.folder == tmp_path / run_name(small)
    assert new.seconds_left == 0.5 * images_trained(small)

    _cut(small_run, tmp_path / "whatever it is called")
    (cut,) = plan([small], [], tmp_path, lambda recipe: 0.5)
    assert cut.status == "cut" and cut.epochs_done == 1 and cut.folder == tmp_path / "whatever it is called"
    assert cut.seconds_left == pytest.approx(0.75 * new.seconds_left)

    (finished,) = plan([small], [], small_run.parent)
    assert finished.status == "finished" and not finished.needs_training and finished.folder == small_run

    (recorded,) = plan([small], [made_up(small)], tmp_path)
    assert recorded.status == "recorded" and not recorded.needs_training


def test_another_seed_or_setting_is_another_run(small: Recipe, small_run: Path, made_up: Callable[..., Record]) -> None:
    others = [small.changed(seed=1), small.changed(t_alpha=0.5)]
    assert [entry.status for entry in plan(others, [made_up(small)], small_run.parent)] == ["new", "new"]


def test_a_run_that_another_process_trains_is_left_alone(small: Recipe, small_run: Path, tmp_path: Path) -> None:
    _cut(small_run, tmp_path / "busy")
    with (tmp_path / "busy" / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (running,) = plan([small], [], tmp_path)
        assert running.status == "running" and not running.needs_training
    assert plan([small], [], tmp_path)[0].status == "cut"


def test_finished_runs_of_any_seed_are_worth_recording_and_others_are_not(
    small: Recipe, small_run: Path, made_up: Callable[..., Record]
) -> None:
    def found(experiment: Recipe, *records: Record) -> list[Path]:
        return [entry.folder for entry in finished_unrecorded([experiment], records, small_run.parent)]

    assert found(small.changed(seed=7)) == [small_run]
    assert found(small.changed(seed=7), made_up(small)) == []
    assert found(small.changed(epochs=3)) == []


def test_a_folder_that_is_no_run_is_passed_over(small: Recipe, tmp_path: Path) -> None:
    for name, text in (("damaged", "{"), ("other", '{"name": "of another program"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    assert plan([small], [], tmp_path)[0].status == "new"


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
    assert [entry for entry in found if is_full(entry)] == [recipe("lenet5-mnist", 1), recipe("lenet5-mnist", 32)]
    for name in ("vgg_small-cifar10", "resnet18-cifar10", "wrn28_10-cifar10"):
        assert trial(name) in found and images_trained(trial(name)) == 300 * trial(name).batch_size


def test_seeds_are_trained_one_after_the_other() -> None:
    found = experiments("state-figure", "cpu", seeds=3)
    assert [entry.seed for entry in found] == [0, 1, 2]
    assert [run_name(entry) for entry in found][2] == "lenet5-mnist-1bit-2"
