"""Several processes train as one does, and the run survives when one of them is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import signwise.cli
from signwise import models
from signwise.errors import SignwiseError
from signwise.training import checkpoint
from signwise.training.distributed import pick_device
from signwise.training.run_folder import read_config, read_records

pytestmark = pytest.mark.slow

Story = Callable[[Path], Any]

# A model without batch norm, whose statistics would differ from process to process. At the end the script looks for
# threads of the process group: any that are left may abort the process now and then.
NETWORK = """
import sys
from pathlib import Path
from torch import nn
from signwise import models
from signwise.cli import main

def plain(num_classes):
    hidden = [nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(32, num_classes))

models.MODELS["plain"] = plain
if __name__ == "__main__":
    code = main()
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    left = [name for name in names if "gloo" in name]
    sys.exit(f"threads of the process group are left: {left}" if left else code)
"""


@pytest.fixture(scope="module")
def command(small_command: list[str]) -> list[str]:
    """120 steps on augmented images, so that the test sees whether each process augments as one alone would."""
    recipe = ["--model", "plain", "--skip", "first_and_last", "--epochs", "12", "--t-alpha", "0.5", "--lr", "0.02"]
    return [*small_command, *recipe, "--flip", "--translate", "2", "--zoom", "0.1", "--threads", "1"]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "train_plain.py"
    path.write_text(NETWORK)
    return path


def torchrun(script: Path, arguments: list[str], *, restarts: int = 0) -> subprocess.Popen[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "--max-restarts", str(restarts), "--monitor-interval", "0.1", str(script), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def output_of(process: subprocess.Popen[str]) -> str:
    """What the launcher and its workers have said when they end; they do not outlive the test."""
    try:
        return process.communicate(timeout=600)[0]
    except subprocess.TimeoutExpired:
        process.terminate()  # the launcher takes its workers along
        pytest.fail(f"torchrun did not end by itself: {process.communicate()[0]}")


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The process ids of the launcher's workers, by rank."""
    return [int(worker) for worker in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def two_processes(script: Path, command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on two processes that nobody disturbed."""
    folder = tmp_path_factory.mktemp("two") / "run"
    process = torchrun(script, [*command, "--out", str(folder)])
    output = output_of(process)
    assert process.returncode == 0, output
    assert output.count("epoch 1/12") == 1, "only rank 0 may speak"
    return folder


def test_the_same_batch_on_one_and_on_two_processes_gives_the_same_training(
    command: list[str], two_processes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain: dict[str, Any] = {"__name__": "plain"}
    monkeypatch.setattr(models, "MODELS", dict(models.MODELS))
    exec(NETWORK, plain)
    assert isinstance(plain["plain"](10), nn.Module)
    assert signwise.cli.main([*command, "--out", str(tmp_path)]) == 0
    assert [read_config(folder)["processes"] for folder in (tmp_path, two_processes)] == [1, 2]

    one, two = (checkpoint.read_tensors(folder / "last.safetensors").tensors for folder in (tmp_path, two_processes))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=1e-5)
    for rows in zip(*(read_records(folder / "metrics.jsonl") for folder in (tmp_path, two_processes)), strict=True):
        assert rows[0]["train_loss"] == pytest.approx(rows[1]["train_loss"], rel=1e-4)
        assert rows[0]["relaxed_loss"] == pytest.approx(rows[1]["relaxed_loss"], rel=1e-4)
    assert rows[0]["train_loss"] < 2.2  # it did learn: networks that stay where they began agree for nothing


def test_a_killed_worker_is_restarted_and_the_run_ends_as_if_nothing_had_happened(
    script: Path, command: list[str], two_processes: Path, tmp_path: Path, story: Story
) -> None:
    process = torchrun(script, [*command, "--out", str(tmp_path)], restarts=2)
    while process.poll() is None and not (tmp_path / checkpoint.PREVIOUS).exists():
        time.sleep(0.02)
    os.kill(workers_of(process)[-1], signal.SIGKILL)
    output = output_of(process)
    assert process.returncode == 0, output
    # torchrun sees a death once, so that a second restart would be of a worker that failed by itself.
    restarts = [attempt["step"] for attempt in read_config(tmp_path)["resumed"]]
    assert len(restarts) == 1 and 0 < restarts[0] < 120, f"restarted after the steps {restarts}: {output}"
    assert story(tmp_path) == story(two_processes)


def test_processes_that_are_asked_to_stop_do_so_after_the_same_step(
    script: Path, command: list[str], tmp_path: Path
) -> None:
    process = torchrun(script, [*command, "--epochs", "500", "--checkpoint-minutes", "60", "--out", str(tmp_path)])
    while process.poll() is None and not (tmp_path / checkpoint.CURRENT).exists():
        time.sleep(0.02)
    _, other = workers_of(process)
    os.kill(other, signal.SIGTERM)  # the one that does not write; rank 0 hears of it from the other
    output = output_of(process)
    found, _ = checkpoint.read(tmp_path)
    assert found is not None
    assert f"stopped after step {found.record['progress']['step']}; resume with" in output, output
    assert output.count("stopped after step") == 1 and "Traceback" not in output.split("stopped after")[0]


def test_an_unknown_device_is_named_without_a_list_of_all() -> None:
    with pytest.raises(SignwiseError, match=r"^device 'tpu' is not available: there is no such kind of device; auto"):
        pick_device("tpu")
