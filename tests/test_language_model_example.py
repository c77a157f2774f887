"""The language model example: killed and resumed runs end at the same loss, on one process and on two with FSDP2."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "language_model" / "train.py"
TEXT = "And God said, Let there be light: and there was light. " * 80

pytestmark = pytest.mark.slow


def command(folder: Path, processes: int) -> list[str]:
    text = folder.parent / "text.txt"
    text.write_text(TEXT)
    sizes = ["--batch", "4", "--context", "16", "--width", "128", "--layers", "1"]
    settings = ["--steps", "6", "--save-every", "2", *sizes]
    launch = (
        ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] if processes > 1 else []
    )
    shard = ["--shard"] if processes > 1 else []
    return [sys.executable, *launch, str(EXAMPLE), str(text), "--out", str(folder), *settings, *shard]


def train(folder: Path, processes: int) -> None:
    done = subprocess.run(command(folder, processes), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def losses_of(folder: Path) -> list[object]:
    record = json.loads((folder / "record.json").read_text())
    assert [entry["step"] for entry in record["curve"]] == [2, 4, 6]
    return [record["bits_per_byte"], record["curve"]]


def workers_of(launcher: int) -> list[int]:
    """The processes that torchrun has started."""
    return [int(pid) for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_run_resumes_to_the_same_loss(processes: int, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(whole, processes)
    running = subprocess.Popen(command(killed, processes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not (killed / "checkpoint.pt").exists() and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for process in [running.pid] if processes == 1 else workers_of(running.pid):
        os.kill(process, signal.SIGKILL)
    assert running.wait(timeout=60) != 0
    train(killed, processes)
    assert losses_of(killed) == losses_of(whole)
    assert (killed / "model.gguf").read_bytes() == (whole / "model.gguf").read_bytes()
