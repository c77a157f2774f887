"""The command prints its errors as one sentence, and keeps the traceback of a defect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import signwise
from signwise.cli import COMMANDS, build_parser, main


def complaint(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """The one line on standard error of a command that must fail with code 2."""
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else -1
    captured = capsys.readouterr()
    assert code == 2 and captured.out == "" and captured.err.count("\n") == 1
    return captured.err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "Begin with: signwise quickstart" in shown and all(f"\n    {name} " in shown for name in COMMANDS)


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"signwise {signwise.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trian"], "signwise: there is no command 'trian': did you mean train?"),
        (["xyz"], "signwise: there is no command 'xyz': choose from quickstart, "),
        (["train"], "signwise: name a recipe (signwise list shows them)"),
        (["train", "lenet5-mnits"], "signwise: there is no recipe 'lenet5-mnits': did you mean lenet5-mnist?"),
        (["train", "lenet5-mnist", "--epochs", "0"], "signwise: epochs must be at least 1, got 0"),
        (["train", "lenet5-mnist", "--epochs", "few"], "signwise train: argument --epochs: invalid int value: 'few'"),
        (
            ["train", "lenet5-mnist", "--decay-at", "a,b"],
            "signwise train: argument --decay-at: invalid list of fractions",
        ),
        (["train", "lenet5-mnist", "--t-alpha", "2"], "signwise: t_alpha must be in [0, 1], got 2.0"),
        (["train", "lenet5-mnist", "--bits", "32", "--t-alpha", "0.5"], "signwise: t_alpha must be left out"),
        (["train", "lenet5-mnist", "--bits", "2"], "signwise train: argument --bits: invalid choice: 2"),
        (["train", "lenet5-mnist", "--threads", "0"], "signwise: threads must be at least 1, got 0"),
        (["train", "lenet5-mnist", "--lr", "nan"], "signwise: learning_rate must be positive, got nan"),
        (
            ["train", "lenet5-mnist", "--epocs", "3"],
            "signwise train: there is no option --epocs: did you mean --epochs",
        ),
        (["inspect", "a.sw", "--jsno"], "signwise inspect: there is no option --jsno: did you mean --json?"),
        (["--versoin"], "signwise: there is no option --versoin: did you mean --version?"),
        (["compile", "runs/a", "b.sw"], "signwise compile: there is no place for b.sw"),
        (["eval", "runs/nowhere", "--samples", "0"], "signwise: --samples must be at least 1, got 0"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert complaint(capsys, arguments).startswith(sentence)


def test_an_unknown_model_or_data_set_is_refused_before_training(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = ["--out", str(tmp_path / "run"), "--device", "cpu"]
    sentence = complaint(capsys, ["train", "lenet5-mnist", "--model", "lenet", *out])
    assert sentence.endswith(" 'lenet': did you mean lenet5?\n")
    assert "did you mean mnist" in complaint(capsys, ["train", "lenet5-mnist", "--dataset", "minst", *out])


def test_debug_keeps_the_traceback(tmp_path: Path) -> None:
    for arguments in (["--debug", "train", "nothing"], ["train", "nothing", "--debug"]):
        with pytest.raises(signwise.SignwiseError):
            main(arguments)


def test_every_command_has_a_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    parser = build_parser()
    for name in COMMANDS:
        with pytest.raises(SystemExit) as stop:
            parser.parse_args([name, "--help"])
        shown = capsys.readouterr().out
        assert stop.value.code == 0 and "example" in shown and f"signwise {name}" in shown


def test_without_pytorch_the_help_works_and_training_names_the_package_to_install(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "signwise", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert run("train", "--help").returncode == 0
    listed = run("list")
    assert listed.returncode == 0 and "lenet5-mnist" in listed.stdout and "the sizes need torch" in listed.stderr
    failed = run("train", "lenet5-mnist")
    assert failed.returncode == 2
    assert re.fullmatch(r"signwise: this needs torch: .*pip install torch\n", failed.stderr)


def test_a_closed_pipe_ends_the_command_silently() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "signwise", "--version"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
