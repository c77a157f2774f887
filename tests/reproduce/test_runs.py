"""Runs: recorded ones are skipped, interrupted ones resume; each has a process that does not outlive its parent."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from signwise.reproduce.experiments import images_trained, run_name
from signwise.reproduce.records import Record
from signwise.reproduce.runs import (
    PlannedRun,
    _measured_images,
    finished_unrecorded,
    launch,
    log_path,
    plan,
    remembered,
    seconds_per_image,
    slots,
)
from signwise.training import Options, Recipe, get_recipe
from signwise.training.run_folder import read_config


def _interrupt(run: Path, to: Path, lines: int = 1) -> None:
    """Copy a run as a kill leaves it after some epochs."""
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
    assert new.seconds_left is not None and new.seconds_left == 0.5 * images_trained(small)

    _interrupt(small_run, tmp_path / "whatever it is called")
    (cut,) = plan([small], [], tmp_path, lambda recipe: 0.5)
    assert cut.status == "interrupted" and cut.epochs_done == 1 and cut.folder == tmp_path / "whatever it is called"
    assert cut.seconds_left == pytest.approx(0.75 * new.seconds_left)

    (finished,) = plan([small], [], small_run.parent)
    assert finished.status == "finished" and not finished.needs_training and finished.folder == small_run

    (recorded,) = plan([small], [made_up(small)], tmp_path)
    assert recorded.status == "recorded" and not recorded.needs_training


def test_another_seed_or_setting_is_another_run(small: Recipe, small_run: Path, made_up: Callable[..., Record]) -> None:
    others = [small.changed(seed=1), small.changed(t_alpha=0.5)]
    assert [entry.status for entry in plan(others, [made_up(small)], small_run.parent)] == ["new", "new"]


def test_a_run_that_another_process_trains_is_left_alone(small: Recipe, small_run: Path, tmp_path: Path) -> None:
    _interrupt(small_run, tmp_path / "busy")
    with (tmp_path / "busy" / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (running,) = plan([small], [], tmp_path)
        assert running.status == "running" and not running.needs_training
    assert plan([small], [], tmp_path)[0].status == "interrupted"


def test_finished_runs_of_an_experiment_are_recorded_with_any_seed(
    small: Recipe, small_run: Path, made_up: Callable[..., Record]
) -> None:
    def found(experiment: Recipe, *records: Record) -> list[Path]:
        return [entry.folder for entry in finished_unrecorded([experiment], records, small_run.parent)]

    assert found(small.changed(seed=7)) == [small_run]
    assert found(small.changed(seed=7), made_up(small)) == []
    assert found(small.changed(epochs=3)) == []


def test_a_folder_that_is_no_run_is_skipped(small: Recipe, tmp_path: Path) -> None:
    for name, text in (("damaged", "{"), ("other", '{"name": "of another program"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    assert plan([small], [], tmp_path)[0].status == "new"


def test_a_step_takes_time_and_leaves_the_number_of_threads_unchanged() -> None:
    before = torch.get_num_threads()
    assert 0 < seconds_per_image(get_recipe("lenet5-mnist"), "cpu", threads=1, images=10) < 10
    assert torch.get_num_threads() == before


def test_small_networks_are_measured_on_a_full_batch_and_wide_ones_on_a_few_images() -> None:
    cpu = torch.device("cpu")
    names = ("lenet5-mnist", "resnet18-cifar10", "wrn28_10-cifar10")
    images = {name: _measured_images(get_recipe(name), cpu) for name in names}
    assert images["lenet5-mnist"] == 100 and images["wrn28_10-cifar10"] == 4
    assert 4 < images["resnet18-cifar10"] < 128


def test_a_time_is_measured_once_per_recipe_and_place(tmp_path: Path) -> None:
    measured: list[str] = []

    def measure(wanted: Recipe) -> float:
        measured.append(wanted.name)
        return 0.25

    lenet5 = get_recipe("lenet5-mnist")
    for place in ("cpu, 1 threads", "cpu, 1 threads", "cpu, 2 threads"):
        assert remembered(tmp_path, place, measure, print)(lenet5.changed(seed=3)) == 0.25
    assert measured == ["lenet5-mnist"] * 2
    (tmp_path / "step-times.json").write_text("damaged")
    assert remembered(tmp_path, "cpu, all threads", measure, print)(lenet5) == 0.25 and len(measured) == 3


def test_jobs_divide_the_cores_and_take_accelerators_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert [slot.threads for slot in slots(4, [])] == [2, 2, 2, 2]
    assert [slot.threads for slot in slots(None, [])] == [None]
    assert [slot.device for slot in slots(None, ["cuda:0", "cuda:1"])] == ["cuda:0", "cuda:1"]
    assert [slot.device for slot in slots(3, ["cuda:0", "cuda:1"])] == ["cuda:0", "cuda:1", "cuda:0"]


@pytest.mark.slow
def test_runs_finish_side_by_side_and_a_failure_is_reported(small: Recipe, digits: Path, tmp_path: Path) -> None:
    good, bad = plan([small.changed(epochs=1), small.changed(epochs=1, model="no_such_network")], [], tmp_path)
    finished: list[PlannedRun] = []
    said: list[str] = []
    options = Options(data=digits, tensorboard=False)
    failed = launch([good, bad], slots(2, []), options=options, finished=finished.append, say=said.append)
    assert finished == [good] and failed == [bad]
    assert "finished" in read_config(good.folder) and read_config(good.folder)["recipe"] == good.recipe.to_json()
    assert any("no model 'no_such_network'" in text for text in said)
    assert "epoch 1/1" in log_path(good).read_text()


@pytest.mark.slow
def test_a_process_that_has_just_started_does_not_outlive_its_parent(
    small: Recipe, digits: Path, tmp_path: Path
) -> None:
    (run,) = plan([small.changed(epochs=5000)], [], tmp_path)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch([run], slots(1, []), options=Options(data=digits), finished=print, say=say)
    assert "starts on cpu" in said[0] and plan([run.recipe], [], tmp_path)[0].status in ("new", "interrupted")


@pytest.mark.slow
def test_a_process_writes_a_checkpoint_when_its_parent_stops(small: Recipe, digits: Path, tmp_path: Path) -> None:
    (run,) = plan([small.changed(epochs=5000)], [], tmp_path)

    def say(text: str) -> None:
        if ": epoch " in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch([run], slots(1, []), options=Options(data=digits, tensorboard=False), finished=print, say=say)
    # The folder's lock is free again, so nobody trains there, and the checkpoint says where to resume.
    assert plan([run.recipe], [], tmp_path)[0].status == "interrupted"
    assert (run.folder / "checkpoint.safetensors").exists()
