from __future__ import annotations

import json

import pytest

from signwise.cli import main
from signwise.program.file import load


@pytest.fixture(scope="module")
def run(synthetic_data, tmp_path_factory):
    """A run of one epoch, and the folder of its data."""
    folder, data = tmp_path_factory.mktemp("run") / "small", synthetic_data("mnist", train=100, test=60)
    words = ["train", "lenet5-mnist", "--epochs", "1", "--batch-size", "20", "--data", str(data), "--out", str(folder)]
    assert main([*words, "--device", "cpu", "--no-tensorboard"]) == 0
    return folder, data


@pytest.mark.parametrize("activations", ["float32", "int8"])
def test_a_run_becomes_a_file_that_is_as_wrong_as_the_run(run, activations, tmp_path, capsys):
    folder, data = run
    assert main(["eval", str(folder), "--data", str(data), "--device", "cpu", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out.strip())["error"]
    out = tmp_path / "net.sw"
    words = ["compile", str(folder), "-o", str(out), "--data", str(data), "--activations", activations]
    assert main(words) == 0
    printed = capsys.readouterr().out
    about = load(out).about
    assert about["dataset"] == "mnist" and about["recipe"].startswith("lenet5-mnist, 1 bit")
    with_float32 = about["error" if activations == "float32" else "error with float32 activations"]
    assert with_float32 == f"{expected:.2f} % of 60 examples"
    assert with_float32 in printed and "times smaller" in printed

    assert main(["eval", str(out), "--data", str(data), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out.strip())["error"]
    assert about["error"] == f"{measured:.2f} % of 60 examples"


def test_the_same_run_gives_the_same_bytes(run, tmp_path):
    folder, data = run
    for name in ("a.sw", "b.sw"):
        words = ["compile", str(folder), "-o", str(tmp_path / name), "--data", str(data), "--activations", "int8"]
        assert main([*words, "--validate", "0"]) == 0
    assert (tmp_path / "a.sw").read_bytes() == (tmp_path / "b.sw").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [(["absent"], "absent holds no run"), ([".", "--calibrate", "0"], "--calibrate must be at least 1")],
)
def test_mistakes_are_one_sentence(words, message, capsys):
    assert main(["compile", *words]) == 2
    assert message in capsys.readouterr().err
