"""The accelerate example, with accelerate itself: killed, resumed, and on two processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("accelerate")

EXAMPLE = Path(__file__).parents[2] / "examples" / "accelerate_loop.py"

CPU = os.environ | {"ACCELERATE_USE_CPU": "true"}  # as `accelerate launch --cpu` sets it

pytestmark = pytest.mark.slow


def command(folder: Path, *arguments: str) -> list[str]:
    return [str(EXAMPLE), "--out", str(folder), "--images", "1000", "--precision", "bf16", *arguments]


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=CPU)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_killed_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole = run(*command(tmp_path / "whole", "--epochs", "2"))
    killed = subprocess.Popen([sys.executable, *command(tmp_path / "killed", "--epochs", "2")], env=CPU)
    while killed.poll() is None and not (tmp_path / "killed" / "epoch").exists():
        time.sleep(0.01)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    assert run(*command(tmp_path / "killed", "--epochs", "2", "--resume")) == whole.splitlines(keepends=True)[1]
    for name in ("model.safetensors", "custom_checkpoint_0.pkl"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_two_processes_print_once_and_end(tmp_path: Path) -> None:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    assert run(*launcher, *command(tmp_path, "--epochs", "1")).count("epoch 1") == 1
