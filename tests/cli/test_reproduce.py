"""``signwise reproduce``: plans, trains the missing runs, records and renders them, and does none of it twice."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from signwise.cli import main
from signwise.reproduce import ablation, experiments
from signwise.training import Recipe, get_recipe


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recipe:
    """The paper's experiments are one run of a second; the current folder is empty."""
    run = get_recipe("lenet5-mnist").changed(epochs=1, batch_size=20)
    monkeypatch.setattr(experiments, "_cpu", lambda: {target: [run] for target in experiments.TARGETS})
    monkeypatch.chdir(tmp_path)
    return run


@pytest.fixture(scope="module")
def digits(synthetic_data: Callable[..., Path]) -> Path:
    return synthetic_data("mnist", train=100, test=50)


@pytest.mark.slow
def test_a_missing_run_is_trained_once_and_rendered(
    tiny: Recipe, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "table1", "--budget", "cpu", "--data", str(digits)]
    assert main([*command, "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "to be trained, about" in output and "from one measured step of each" in output
    assert not Path("reproduce-out").exists()

    assert main(command) == 0
    output = capsys.readouterr().out
    name = "lenet5-mnist-1bit-epochs1-batchsize20-0"
    assert "starts on cpu" in output and f"recorded in reproduce-out/records/{name}.json" in output
    assert "0 are measured; not measured: LeNet5 on MNIST" in Path("reproduce-out/not-measured.md").read_text()
    assert name in Path("reproduce-out/provenance.md").read_text()

    # The record is enough: nothing is trained again, even without the run folder.
    Path("runs").rename("elsewhere")
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "-0  recorded\n" in output and "starts on" not in output


@pytest.mark.slow
def test_no_train_records_finished_runs_and_trains_nothing(
    tiny: Recipe, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "all", "--budget", "cpu", "--no-train", "--records", "elsewhere", "--out", "tables"]
    assert main(command) == 0
    assert not Path("elsewhere").exists()
    sizes = ["--epochs", "1", "--batch-size", "20", "--t-alpha", "0.9"]  # of the experiment; short runs take 0.5
    train = ["train", "lenet5-mnist", *sizes, "--threads", "1", "--no-tensorboard"]
    assert main([*train, "--data", str(digits), "--out", "runs/mine"]) == 0
    assert main(command) == 0
    assert "0: best error" in capsys.readouterr().out
    assert [path.name for path in Path("elsewhere").iterdir()] == ["lenet5-mnist-1bit-epochs1-batchsize20-0.json"]
    assert (Path("tables") / "table1.md").exists()

    sizes = ["--epochs", "1", "--batch-size", "10"]  # of no experiment: recorded on request alone
    train = ["train", "lenet5-mnist", *sizes, "--threads", "1", "--no-tensorboard"]
    assert main([*train, "--data", str(digits), "--out", "runs/other"]) == 0
    assert main(command) == 0
    assert len(list(Path("elsewhere").iterdir())) == 1
    assert main([*command, "--also", "runs/other"]) == 0
    also = Path("elsewhere") / "lenet5-mnist-1bit-epochs1-batchsize10-talpha0.5-0.json"
    also.unlink()
    assert main(["reproduce", "ablation", *command[2:], "--also", "runs/other"]) == 0
    assert also.exists(), "whatever is reproduced"


def test_a_repository_in_the_current_folder_is_left_alone(tiny: Recipe) -> None:
    for name in ("docs", "results"):
        Path(name).mkdir()
    page = Path("docs/results.md")
    page.write_text("<!-- begin table1 -->\nmine\n<!-- end table1 -->\n")
    assert main(["reproduce", "all", "--budget", "cpu", "--no-train"]) == 0
    assert "mine" in page.read_text() and not list(Path("results").iterdir())


@pytest.mark.slow
def test_a_failed_run_is_reported_and_gives_exit_code_1(tiny: Recipe, capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    Path("empty/t10k-images-idx3-ubyte.gz").write_bytes(b"")
    assert main(["reproduce", "state-figure", "--budget", "cpu", "--data", "empty"]) == 1
    assert "failed: signwise: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["table1", "--seeds", "0"], "--seeds must be at least 1"),
        (["table1", "--jobs", "0"], "--jobs must be at least 1"),
    ],
)
def test_a_number_below_1_is_refused_by_its_flag(
    tiny: Recipe, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *words]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
def test_the_ablation_is_measured_once_and_openings_is_its_alias(
    tiny: Recipe, digits: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = functools.partial(ablation.measure_ablation, epochs=1, images=20, test_images=20, seeds=2)
    monkeypatch.setattr(ablation, "measure_ablation", quick)
    assert main(["reproduce", "ablation", "--data", str(digits)]) == 0
    first = capsys.readouterr().out
    assert "| all of them | as in the recipes here |" in first and "| input scaling |" in first
    assert Path("reproduce-out/ablation.md").exists()
    assert main(["reproduce", "openings", "--data", str(digits)]) == 0
    assert capsys.readouterr().out == first[first.index("| Open") :]
