"""``signwise train`` and ``signwise eval`` on a run of a second."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from signwise.cli import main
from signwise.cli.train import default_folder, flag_of
from signwise.datasets import load
from signwise.invocation import command
from signwise.program.operations import Dense, Flatten
from signwise.program.program import Program
from signwise.training import Outcome, Recipe, get_recipe
from signwise.training.checkpoint import Progress
from signwise.training.run_folder import read_config


@pytest.fixture(scope="module")
def digits(synthetic_data: Callable[..., Path]) -> Path:
    return synthetic_data("mnist", train=60, test=40)


@pytest.fixture(scope="module")
def run(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with every kind of setting given on the command line."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    settings = "--epochs 2 --batch-size 10 --lr 0.02 --weight-decay 2e-3 --momentum 0.8 --warmup-epochs 0.5 --seed 5"
    more = "--decay-factor 0.5 --decay-at 0.4,0.8 --t-alpha 0.5 --zeta-end 10 --train-samples 50 --test-samples 30"
    command = ["train", "lenet5-mnist", *settings.split(), *more.split(), "--flip", "--translate", "1"]
    where = ["--data", str(digits), "--out", str(folder), "--device", "cpu", "--no-tensorboard", "--threads", "1"]
    assert main([*command, *where]) == 0
    return folder


def test_every_setting_of_a_recipe_has_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    shown = capsys.readouterr().out
    for entry in dataclasses.fields(Recipe):
        assert entry.name == "name" or re.search(rf"^  {flag_of(entry.name)}[ ,]", shown, re.M), entry.name


def test_library_errors_name_the_flag(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "lenet5-mnist", "--data", str(digits), "--device", "cpu", "--out", str(tmp_path)]
    assert main([*command, "--watch", "fc*"]) == 2
    assert "--watch pattern 'fc*' matches no binary layer" in capsys.readouterr().err
    assert main([*command, "--sync-batch-norm"]) == 2
    assert "--sync-batch-norm needs an accelerator" in capsys.readouterr().err


def test_settings_on_the_command_line_arrive_in_the_recipe(run: Path) -> None:
    expected = dataclasses.replace(
        get_recipe("lenet5-mnist"),
        epochs=2,
        batch_size=10,
        learning_rate=0.02,
        weight_decay=2e-3,
        momentum=0.8,
        warmup_epochs=0.5,
        seed=5,
        decay_factor=0.5,
        decay_at=(0.4, 0.8),
        t_alpha=0.5,
        zeta_end=10.0,
        train_samples=50,
        test_samples=30,
        flip=True,
        translate=1,
    )
    config = read_config(run)
    assert Recipe.from_json(config["recipe"]) == expected
    assert config["steps_per_epoch"] == 5 and config["threads"] == 1


def test_a_run_is_resumed_without_repeating_its_settings_and_refuses_other_ones(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = ["train", "lenet5-mnist", "--out", str(run), "--no-tensorboard", "--resume"]
    assert main(again) == 0
    assert "after step 10 of 10" in capsys.readouterr().out
    for other in (["--epochs", "3"], ["--bits", "32"], ["--lr", "0.5"]):
        assert main([*again, *other]) == 2
        assert "was begun with" in capsys.readouterr().err
    assert main(["train", "resnet20-cifar10", *again[2:]]) == 2
    assert "was begun with name lenet5-mnist, not resnet20-cifar10" in capsys.readouterr().err
    assert main(again[:-1]) == 2
    assert "already holds a run: continue it with --resume, or choose another --out" in capsys.readouterr().err


def test_a_resumed_run_keeps_its_threads_and_precision_unless_they_are_given(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--data", str(digits), "--out", str(tmp_path / "run"), "--device", "cpu", "--no-tensorboard"]
    command = ["train", "lenet5-mnist", *where]
    threads = torch.get_num_threads()
    try:
        assert main([*command, "--epochs", "1", "--batch-size", "20", "--threads", "2"]) == 0
        torch.set_num_threads(1)
        assert main([*command, "--resume"]) == 0
        assert torch.get_num_threads() == 2
        capsys.readouterr()
        assert main([*command, "--resume", "--threads", "1", "--no-deterministic"]) == 0
        assert torch.get_num_threads() == 1
        assert capsys.readouterr().out.startswith("threads was 2 and is 1 now: the run rounds differently")
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(("processes", "launcher"), [(1, ""), (2, "torchrun --nproc-per-node 2 -m ")])
def test_an_interrupted_run_prints_a_command_that_resumes_it_as_it_was(
    processes: int, launcher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> Outcome:
        progress = Progress(step=3)
        return Outcome(
            model=nn.Identity(), folder=None, progress=progress, signal=15, is_main=True, processes=processes
        )

    monkeypatch.setattr("signwise.training.run.train", stopped)
    assert main(["train", "lenet5-mnist", "--out", str(tmp_path / "a run")]) == 143
    program = "signwise" if processes > 1 else command()
    again = f"{launcher}{program} train lenet5-mnist --out '{tmp_path / 'a run'}' --resume"
    assert capsys.readouterr().err == f"stopped after step 3; resume with: {again}\n"


def test_eval_gives_the_error_that_training_recorded(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = read_config(run)["result"]
    assert main(["eval", str(run), "--which", "last", "--device", "cpu", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["error"], report["images"]) == (result["last_error"], 30)
    assert main(["eval", str(run), "--device", "cpu", "--threads", "1"]) == 0
    shown = capsys.readouterr().out
    assert f"best weights, step {5 * result['best_epoch']}): error {result['best_error']:.2f} % (relaxed " in shown
    assert shown.endswith("on 30 test images\n")


def test_a_packed_file_is_tested_without_pytorch(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A program that outputs the leftmost pixel of each of the first ten rows: easy to recompute.
    weight = np.zeros((10, 784), np.float32)
    weight[np.arange(10), np.arange(10) * 28] = 1
    operations = (Flatten(inputs=(0,)), Dense(inputs=(1,), weight="w", bits=32, out_features=10, in_features=784))
    program = Program(
        input_shape=(1, 28, 28), ops=operations, tensors={"w": weight}, output=2, about={"dataset": "mnist"}
    )
    program.save(tmp_path / "net.sw")
    data = load("mnist", digits)
    expected = 100 * float((data.test_images[:, 0, :10, 0].argmax(1) != data.test_labels).mean())
    assert main(["eval", str(tmp_path / "net.sw"), "--data", str(digits), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["error"] == pytest.approx(expected) and report["images"] == 40
    assert main(["eval", str(tmp_path / "net.sw"), "--data", str(digits), "--dataset", "minst"]) == 2
    assert "did you mean mnist" in capsys.readouterr().err
    assert main(["eval", str(tmp_path / "nothing.sw")]) == 2
    assert "nothing.sw" in capsys.readouterr().err


def test_eval_of_a_folder_without_a_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"signwise: {tmp_path} holds no run: it has no config.json\n"


def test_few_epochs_reach_the_binary_weights_half_way_unless_told_otherwise(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "lenet5-mnist", "--epochs", "1", "--batch-size", "20", "--data", str(digits)]
    for name, more, expected in (("a", [], 0.5), ("b", ["--t-alpha", "0.8"], 0.8)):
        out = ["--out", str(tmp_path / name), "--device", "cpu", "--no-tensorboard"]
        assert main([*command, *out, *more]) == 0
        assert read_config(tmp_path / name)["recipe"]["t_alpha"] == expected
        assert ("T_α is 0.5, not 0.9" in capsys.readouterr().out) == (not more)
    assert main([*command[:2], "--out", str(tmp_path / "a"), "--no-tensorboard", "--resume"]) == 0


def test_a_finished_run_names_a_next_command_that_works(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["--epochs", "1", "--batch-size", "20", "--train-samples", "40", "--device", "cpu", "--no-tensorboard"]
    assert main(["train", "lenet5-mnist", "--data", str(digits), *settings]) == 0
    *_, done, following = capsys.readouterr().out.splitlines()
    assert "on the first 40 test images; everything is in runs/lenet5-mnist" in done
    words = following.removeprefix("next: ").partition(",")[0].removeprefix(command()).split()
    assert words == ["compile", "runs/lenet5-mnist"]
    assert main([*words, "--data", str(digits)]) == 0
    assert (tmp_path / "lenet5-mnist.sw").exists()


def test_a_refused_run_leaves_no_folder_behind(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, words in (
        ("resnet20 cannot take the images of mnist, 1x28x28", ["--model", "resnet20"]),
        ("pattern 'fc*' matches no binary layer", ["--watch", "fc*"]),
        ("there is no folder", ["--data", str(tmp_path / "nowhere")]),
    ):
        where = ["--data", str(digits), "--out", str(tmp_path / "runs" / "x"), "--device", "cpu"]
        assert main(["train", "lenet5-mnist", *where, *words]) == 2
        assert name in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []


def test_a_run_goes_where_its_name_says() -> None:
    binary, full = get_recipe("lenet5-mnist"), get_recipe("lenet5-mnist", bits=32)
    assert default_folder(binary) == Path("runs/lenet5-mnist")
    assert default_folder(full) == Path("runs/lenet5-mnist-32bit")
    assert default_folder(binary.changed(seed=2)) == Path("runs/lenet5-mnist-seed2")
