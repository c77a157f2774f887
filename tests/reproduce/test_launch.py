"""Runs as processes: each as planned, one a slot, and a failure told from a success."""

from __future__ import annotations

from pathlib import Path

import pytest

from signwise.cli import build_parser
from signwise.cli.train import _overrides
from signwise.reproduce.experiments import BUDGETS, experiments
from signwise.reproduce.launch import launch, log_path, recipe_flags, slots
from signwise.reproduce.plan import PlannedRun, plan
from signwise.training import Recipe, recipe
from signwise.training.run_folder import read_config


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_words_of_a_command_give_the_planned_recipe(budget: str) -> None:
    for planned in [
        *experiments("all", budget, seeds=2),
        recipe("lenet5-mnist").changed(decay_at=(0.1, 1 / 3), flip=True),
    ]:
        parsed = build_parser().parse_args(["train", *recipe_flags(planned)])
        assert recipe(parsed.recipe, parsed.bits).changed(**_overrides(parsed)) == planned


def test_cores_are_shared_out_among_jobs_and_accelerators_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert [slot.threads for slot in slots(4, [])] == [2, 2, 2, 2]
    assert [slot.threads for slot in slots(None, [])] == [None]
    assert [slot.device for slot in slots(None, ["cuda:0", "cuda:1"])] == ["cuda:0", "cuda:1"]
    assert [slot.device for slot in slots(3, ["cuda:0", "cuda:1"])] == ["cuda:0", "cuda:1", "cuda:0"]


def test_runs_go_to_their_end_side_by_side_and_a_failure_is_told(small: Recipe, digits: Path, tmp_path: Path) -> None:
    good, bad = plan([small.changed(epochs=1), small.changed(epochs=1, model="no_such_network")], [], tmp_path)
    finished: list[PlannedRun] = []
    said: list[str] = []
    extra = ["--data", str(digits), "--no-tensorboard"]
    failed = launch([good, bad], slots(2, []), extra=extra, finished=finished.append, say=said.append)
    assert finished == [good] and failed == [bad]
    assert "finished" in read_config(good.folder)
    assert any("no network 'no_such_network'" in text for text in said)
    assert "done: error" in log_path(good).read_text()


def test_a_process_that_was_only_just_started_does_not_outlive_us_either(
    small: Recipe, digits: Path, tmp_path: Path
) -> None:
    (run,) = plan([small.changed(epochs=5000)], [], tmp_path)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch([run], slots(1, []), extra=["--data", str(digits)], finished=print, say=say)
    assert "starts on cpu" in said[0] and plan([run.recipe], [], tmp_path)[0].status in ("new", "cut")


def test_processes_do_not_outlive_the_one_that_launched_them(small: Recipe, digits: Path, tmp_path: Path) -> None:
    (run,) = plan([small.changed(epochs=5000)], [], tmp_path)

    def say(text: str) -> None:
        if ": epoch " in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch([run], slots(1, []), extra=["--data", str(digits), "--no-tensorboard"], finished=print, say=say)
    # The folder's lock is free again, so nobody trains there, and the checkpoint says where to go on.
    assert plan([run.recipe], [], tmp_path)[0].status == "cut"
    assert (run.folder / "checkpoint.safetensors").exists()
