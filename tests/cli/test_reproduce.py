"""``signwise reproduce``: plans, trains what is missing, records it, renders, and does none of it twice."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from signwise.cli import main
from signwise.reproduce import experiments, measure_openings
from signwise.training import Recipe, recipe


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recipe:
    """The paper's experiments are one run of a second; the current folder is empty."""
    run = recipe("lenet5-mnist").changed(epochs=1, batch_size=20)
    monkeypatch.setattr(experiments, "_cpu", lambda: {target: [run] for target in experiments.TARGETS})
    monkeypatch.chdir(tmp_path)
    return run


@pytest.fixture(scope="module")
def digits(synthetic_data: Callable[..., Path]) -> Path:
    return synthetic_data("mnist", train=100, test=50)


def test_what_is_missing_is_trained_once_and_rendered(
    tiny: Recipe, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "table1", "--budget", "cpu", "--data", str(digits)]
    assert main([*command, "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "to be trained, about" in output and "by a measured step of each" in output
    assert not Path("results").exists()

    assert main(command) == 0
    output = capsys.readouterr().out
    assert "starts on cpu" in output and "recorded in results/lenet5-mnist-1bit-epochs1-batchsize20-0.json" in output
    assert "| MNIST | LeNet5 | 1 | 0.53 |" in Path("results/rendered/table1.md").read_text()

    # Recorded: even without the run folder nothing is trained again.
    Path("runs").rename("elsewhere")
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "-0  recorded\n" in output and "starts on" not in output


def test_no_train_records_what_has_finished_and_leaves_the_rest(
    tiny: Recipe, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "all", "--budget", "cpu", "--no-train"]) == 0
    assert not list(Path("results").glob("*.json"))
    train = ["train", "lenet5-mnist", "--epochs", "1", "--batch-size", "20", "--threads", "1", "--no-tensorboard"]
    assert main([*train, "--data", str(digits), "--out", "runs/mine"]) == 0
    assert main(["reproduce", "all", "--budget", "cpu", "--no-train"]) == 0
    assert "0: best error" in capsys.readouterr().out
    assert [path.name for path in Path("results").glob("*.json")] == ["lenet5-mnist-1bit-epochs1-batchsize20-0.json"]


def test_a_run_that_fails_is_told_and_gives_exit_code_1(tiny: Recipe, capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    Path("empty/t10k-images-idx3-ubyte.gz").write_bytes(b"")
    assert main(["reproduce", "state-figure", "--budget", "cpu", "--data", "empty"]) == 1
    assert "failed: signwise: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["table1", "--seeds", "0"], "--seeds must be at least 1"),
        (["table1", "--jobs", "0"], "--jobs must be at least 1"),
        (["all", "--budget", "cpu", "--no-train", "--ship", "here"], "no full record of the 1-bit LeNet5"),
    ],
)
def test_mistakes_are_one_sentence(
    tiny: Recipe, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *words]) == 2
    assert complaint in capsys.readouterr().err


def test_open_questions_are_measured_once(
    tiny: Recipe, digits: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = functools.partial(measure_openings.measure_openings, epochs=1, images=20, test_images=20, seeds=2)
    monkeypatch.setattr(measure_openings, "measure_openings", quick)
    command = ["reproduce", "openings", "--data", str(digits)]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert "| all of them | as in the recipes here |" in first and "| input scaling |" in first
    assert main(command) == 0
    assert capsys.readouterr().out == first[first.index("| Open") :]
