"""A run that is killed, at any moment and however often, ends as the run that was never killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import signwise.cli
from signwise.invocation import command
from signwise.training import checkpoint
from signwise.training.run_folder import read_config

pytestmark = pytest.mark.slow

Story = Callable[[Path], Any]

# A server that has imported PyTorch once forks each process in no time, so that most kills hit the training itself.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["signwise.training.run", "torch._dynamo"])


def start(arguments: list[str]) -> Any:
    process = FORKS.Process(target=signwise.cli.main, args=(arguments,))
    process.start()
    return process


def steps_done(folder: Path) -> int:
    found, _ = checkpoint.read(folder)
    return 0 if found is None else int(found.record["progress"]["step"])


def test_ten_kills_at_random_moments_change_no_bit_of_the_result(
    small_command: list[str], tmp_path: Path, story: Story
) -> None:
    command = [*small_command, "--epochs", "8", "--watch", "*"]
    start(["--version"]).join()  # the first fork waits for the server to come up
    began = time.monotonic()
    whole = start([*command, "--out", str(tmp_path / "whole")])
    while whole.is_alive() and steps_done(tmp_path / "whole") == 0:
        time.sleep(0.01)
    until_first_step = time.monotonic() - began
    whole.join()

    killed = [*command, "--out", str(tmp_path / "killed"), "--resume"]
    rng = random.Random(int(os.environ.get("SIGNWISE_KILL_SEED", "0")))
    hits = 0
    for _ in range(10):
        before = steps_done(tmp_path / "killed")
        process = start(killed)
        # Within the start, or a few steps further on, so that the run lasts for ten kills on a machine of any speed.
        wanted = before + rng.randint(0, 6)
        while process.is_alive() and steps_done(tmp_path / "killed") < wanted:
            time.sleep(0.002)
        process.join(timeout=rng.uniform(0, until_first_step if wanted == before else 0.05))
        process.kill()
        process.join()
        hits += process.exitcode == -signal.SIGKILL
    interrupted_at = {attempt["step"] for attempt in read_config(tmp_path / "killed")["resumed"]}
    start(killed).join()
    assert hits >= 5 and len(interrupted_at) >= 3, "most kills came too late or too early to mean anything"
    assert story(tmp_path / "killed") == story(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob(".*.part")), "files that were not finished must not pile up"


def test_a_kill_in_the_middle_of_an_epoch_loses_no_step_that_was_saved(
    small_command: list[str], tmp_path: Path
) -> None:
    process = start([*small_command, "--epochs", "100", "--out", str(tmp_path)])
    while process.is_alive() and steps_done(tmp_path) < 13:
        time.sleep(0.02)
    process.kill()
    process.join()
    saved = steps_done(tmp_path)
    assert saved >= 13
    again = start([*small_command, "--epochs", "100", "--out", str(tmp_path), "--resume"])
    while again.is_alive() and steps_done(tmp_path) <= saved:
        time.sleep(0.02)
    again.kill()
    again.join()
    assert read_config(tmp_path)["resumed"][0]["step"] == saved


def test_ctrl_c_and_sigterm_stop_cleanly_with_a_checkpoint_and_the_command_to_resume(
    small_command: list[str], tmp_path: Path
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        folder = tmp_path / number.name
        # No checkpoint before the first epoch's end, so that the one that is found was written because of the signal.
        arguments = [*small_command, "--epochs", "100", "--checkpoint-minutes", "60", "--out", str(folder)]
        process = subprocess.Popen(
            [sys.executable, "-m", "signwise", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(number)
        _, complaints = process.communicate(timeout=60)
        assert process.returncode == 128 + number, complaints
        last = complaints.splitlines()[-1]
        assert last.startswith(f"stopped after step {steps_done(folder)}; resume with: ")
        assert f"{command()} train lenet5-mnist" in last
        assert complaints.endswith("--resume\n") and steps_done(folder) > 0


def test_a_second_process_in_the_same_folder_is_refused(small_command: list[str], tmp_path: Path) -> None:
    process = start([*small_command, "--epochs", "100", "--out", str(tmp_path)])
    while process.is_alive() and steps_done(tmp_path) == 0:
        time.sleep(0.02)
    assert signwise.cli.main([*small_command, "--epochs", "100", "--out", str(tmp_path), "--resume"]) == 2
    assert process.is_alive()
    process.kill()
    process.join()
