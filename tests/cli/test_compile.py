from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from signwise.cli import main
from signwise.program import IntegerProgram, Program

# Five steps are too few for the recipe's α to reach 1.
pytestmark = pytest.mark.filterwarnings("ignore:compile. α is below 1")

Run = tuple[Path, Path]


@pytest.fixture(scope="module")
def run(synthetic_data: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of one epoch, and the folder of its data."""
    folder, data = tmp_path_factory.mktemp("run") / "small", synthetic_data("mnist", train=100, test=60)
    words = ["train", "lenet5-mnist", "--epochs", "1", "--batch-size", "20", "--data", str(data), "--out", str(folder)]
    assert main([*words, "--device", "cpu", "--no-tensorboard"]) == 0
    return folder, data


@pytest.mark.parametrize("activations", ["float32", "int8", "integers"])
def test_a_run_becomes_a_file_that_is_as_wrong_as_the_run(
    run: Run, activations: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, data = run
    assert main(["eval", str(folder), "--data", str(data), "--device", "cpu", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out.strip())["error"]
    out = tmp_path / "net.sw"
    words = ["compile", str(folder), "-o", str(out), "--data", str(data), "--activations", activations]
    assert main(words) == 0
    printed = capsys.readouterr().out
    about = (IntegerProgram if activations == "integers" else Program).load(out).about
    assert about["dataset"] == "mnist" and about["recipe"].startswith("lenet5-mnist, 1 bit")
    with_float32 = about["error" if activations == "float32" else "error with float32 activations"]
    assert with_float32 == f"{expected:.2f} % of 60 examples"
    assert with_float32 in printed and "times smaller" in printed

    assert main(["eval", str(out), "--data", str(data), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out.strip())["error"]
    assert about["error"] == f"{measured:.2f} % of 60 examples"


def test_six_bit_inputs_can_be_refused_under_both_names(run: Run, tmp_path: Path) -> None:
    folder, data = run
    for name in ("--no-six-bit-inputs", "--no-narrow"):
        words = ["compile", str(folder), "-o", str(tmp_path / f"{name}.sw"), "--data", str(data), name]
        assert main([*words, "--activations", "int8", "--validate", "0"]) == 0
    assert (tmp_path / "--no-narrow.sw").read_bytes() == (tmp_path / "--no-six-bit-inputs.sw").read_bytes()


def test_the_same_run_gives_the_same_bytes(run: Run, tmp_path: Path) -> None:
    folder, data = run
    for name in ("a.sw", "b.sw"):
        words = ["compile", str(folder), "-o", str(tmp_path / name), "--data", str(data), "--activations", "int8"]
        assert main([*words, "--validate", "0"]) == 0
    assert (tmp_path / "a.sw").read_bytes() == (tmp_path / "b.sw").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent"], "absent holds no run"),
        ([".", "--calibrate", "0"], "--calibrate must be at least 1"),
        ([__file__], "is a file, and this command takes the folder of a run"),
        ([".", "-o", "."], "cannot write .: it is a folder"),
        ([".", "-o", "nowhere/net.sw"], "cannot write nowhere/net.sw: there is no folder nowhere"),
    ],
)
def test_a_wrong_folder_or_setting_is_one_sentence(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", *words]) == 2
    assert message in capsys.readouterr().err
