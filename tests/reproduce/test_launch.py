"""Runs in processes: one per slot, failures apart from successes, and nothing outlives its parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from signwise.reproduce.launch import launch, log_path, slots
from signwise.reproduce.plan import PlannedRun, plan
from signwise.training import Options, Recipe
from signwise.training.run_folder import read_config


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
