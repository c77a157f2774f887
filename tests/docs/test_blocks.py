"""Every Python block and command of a page works, in the order of the page, in an empty folder."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.docs.pages import Page

from signwise.cli import main

# Commands that these tests do not run, and why.
RUN_ELSEWHERE = {
    "make quickstart": "tests/test_quickstart.py runs the same command with fewer images",
    "make test": "this is it",
    ". .venv/bin/activate": "changes the shell that it runs in",
    "make setup": "done before the tests can run",
    "make lint": "run beside the tests in .ci/run",
    "make render": "tests/tools renders without writing",
    "make docs": "run beside the tests in .ci/run",
    "make gallery": "tests/examples runs the same examples with fewer steps",
    "make package": "run beside the tests in .ci/run",
    "make wheels": "minutes of compiling per platform; make package does the same for this machine",
    "make wheel-systems": "needs the rights of root",
    "make test-fast": "a part of make test",
    "make test-native": "run beside the tests in .ci/run",
    "make test-aarch64": "run beside the tests in .ci/run",
    "make test-arm-m": "a part of make test, where the emulator is installed",
    "make test-llama": "downloads llama.cpp; run by hand",
    "make test-web": "run beside the tests in .ci/run, where Chromium is installed",
    "make wasm": "make test-web builds it, run beside the tests in .ci/run",
    "make fuzz": "run beside the tests in .ci/run, for a shorter time",
    ".ci/run": "runs these tests",
    "signwise train vgg_fast-cifar10 --bfloat16 --threads 1 --relaxed-every 100": "CIFAR-10 is not in the package",
    "signwise train resnet20_fast-cifar10 --bits 32 --bfloat16 --threads 1 --out runs/float": "likewise",
    "signwise train resnet20_fast-cifar10 --init-from runs/float/last.safetensors --distill --epochs 40 "
    "--optimizer adam --lr 0.001 --weight-decay 0 --bfloat16 --threads 1 --relaxed-every 100": "likewise",
    "signwise eval resnet20_fast-cifar10-1bit --data DIR": "tests/tools/test_ship.py, where CIFAR-10 is at hand",
    "LD_PRELOAD=libtcmalloc_minimal.so.4 signwise train resnet20-cifar10 --bfloat16 --relaxed-every 10": "benchmarks/"
    "training.py trains with tcmalloc, which is not installed everywhere",
    "signwise eval vgg_fast-cifar10-1bit --data DIR": "tests/tools/test_ship.py, where CIFAR-10 is at hand",
    "pip install .": ".ci/check_wheel installs the wheel where there is nothing else",
    "pip install '.[train]'": "make setup installs these packages",
    "make test-integrations": "run after the tests in .ci/run",
    "pip install '.[integrations]'": "make test-integrations installs them",
    "pip install '.[bench]'": "hundreds of megabytes; tests/bench skips the engines that are not installed",
}
# Packages that a page needs and the development environment lacks; make test-integrations installs them.
NEEDS = {"trainers.md": ("lightning", "transformers", "accelerate"), "hub.md": ("huggingface_hub", "transformers")}
# Extra flags that make a command quick: the last one on a command line counts.
SMALL = {
    "reproduce": ["--no-train"],
    "train": ["--train-samples", "60", "--batch-size", "20", "--epochs", "2"],
    "bench": [
        "--batch",
        "1",
        "--threads",
        "1",
        "--activations",
        "float32",
        "--seconds",
        "0.02",
        "--engines",
        "pytorch",
    ],
}


@pytest.fixture
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synthetic_data: Callable[..., Path]) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGNWISE_DATA", str(synthetic_data("mnist", train=100, test=60)))
    return tmp_path


# The commands train for two epochs here: the best one is early in the schedule, and compile says so.
@pytest.mark.filterwarnings("ignore:compile. α is below 1")
@pytest.mark.filterwarnings("ignore:::lightning")
@pytest.mark.slow
@pytest.mark.usefixtures("in_empty_folder")
def test_python_and_commands_run_as_shown(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    for package in NEEDS.get(page.path.name, ()):
        pytest.importorskip(package)
    namespace: dict[str, object] = {"__name__": "page"}
    for block in page.blocks:
        if block.language == "python":
            # Blank lines in front, so that a traceback names the line of the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(page.path), "exec"), namespace)
        elif block.language == "sh":
            for line in block.text.replace("\\\n", "").splitlines():
                _run(line, capsys)


def _run(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line, comments=True)
    if not words or " ".join(line.partition("#")[0].split()) in RUN_ELSEWHERE:
        return
    small = SMALL.get(words[words.index("signwise") + 1], []) if "signwise" in words else []
    if words[0] == "signwise":
        code = main([*words[1:], *small])
        shown = capsys.readouterr()
        assert code == 0, f"{line}: {shown.err}"
    elif words[0] == "torchrun":
        # Both processes wait for each other, so they cannot run in this one.
        command = [sys.executable, "-m", "torch.distributed.run", *words[1:], *small]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{line}: {done.stderr[-2000:]}"
    else:
        pytest.fail(f"{line!r} is neither run nor listed with a reason in RUN_ELSEWHERE")


def test_a_block_is_python_a_command_or_marked_as_not_run(page: Page) -> None:
    for block in page.blocks:
        kinds = ("python", "sh", "json", "text", "bibtex")
        assert block.language in kinds, f"{page.path}:{block.line} is {block.language or 'unmarked'}"
        if block.language == "json":
            json.loads(block.text)
        if block.language == "text":
            assert "not run" in block.before.lower(), f"{page.path}:{block.line} does not say why it is not run"
