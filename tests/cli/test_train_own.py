"""``signwise train`` on images and models of the user's own, with the same records as a recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from signwise.cli import main
from signwise.training import load_run
from signwise.training.run_folder import evaluate_run, read_config, read_records

MODEL = """
from torch import nn


def plain(num_classes):  # no norm after the second convolution
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(32, num_classes),
    )


def fixed():
    return plain(7)


def number(num_classes):
    return num_classes
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with photos, an .npz file and a module, as the working directory."""
    random = np.random.default_rng(0)
    for label, name in enumerate(("cat", "dog", "fox")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(20):
            pixels = random.integers(0, 80, (8, 8, 3)) + 80 * label
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photos" / name / f"{number}.png")
    images = random.integers(0, 256, (40, 8, 8, 3)).astype(np.uint8)
    np.savez(
        tmp_path / "arrays.npz", x_train=images, y_train=np.arange(40) % 3, x_test=images, y_test=np.arange(40) % 3
    )
    (tmp_path / "my_models.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SMALL = ["--epochs", "2", "--batch-size", "18", "--device", "cpu", "--no-tensorboard"]


def test_a_folder_and_a_model_of_ones_own_train_with_all_records(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "--data", "photos", "--model", "my_models:plain", "--test-fraction", "0.1", *SMALL]
    assert main(command) == 0
    folder = here / "runs" / "plain-photos"
    config = read_config(folder)
    assert config["network"]["classes"] == ["cat", "dog", "fox"] and config["images"] == {"train": 54, "test": 6}
    assert config["recipe"]["model"] == "my_models:plain" and config["recipe"]["test_fraction"] == 0.1
    assert len(read_records(folder / "metrics.jsonl")) == 2
    layer = load_run(folder, "last").model.get_submodule("2")
    assert "scale='mean'" in repr(layer.method), "no norm follows the layer"
    assert main(["train", "--out", str(folder), "--resume"]) == 0
    assert main(["train", "--out", str(folder), "--resume", "--epochs", "3"]) == 2
    assert "was begun with epochs 2, not 3" in capsys.readouterr().err
    assert main(["eval", str(folder)]) == 0
    assert "6" in capsys.readouterr().out
    assert main(["plot", str(folder)]) == 0


@pytest.mark.filterwarnings("ignore:compile. α is below 1")
def test_the_run_compiles_and_is_tested_on_the_images_that_it_held_out(here: Path) -> None:
    assert main(["train", "--data", "photos", "--model", "my_models:plain", "--out", "run", *SMALL]) == 0
    assert main(["compile", "run", "-o", "net.sw"]) == 0
    assert main(["eval", "net.sw"]) == 2


def test_arrays_train_with_a_model_of_signwise(here: Path) -> None:
    command = ["train", "--data", "arrays.npz", "--model", "resnet20", "--out", "run", "--epochs", "1"]
    assert main([*command, *SMALL[2:]]) == 0
    import torch

    report = evaluate_run(here / "run", "best", device=torch.device("cpu"))
    assert report["images"] == 40


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("my_models:nothing", "the module my_models has no function or class 'nothing'"),
        ("no_models:plain", "there is no module 'no_models'"),
        ("my_models:fixed", r"must return one output per class, (1, 3) for one image of 3x8x8, and returns (1, 7)"),
        ("my_models:number", "must return a torch.nn.Module, got int"),
        ("lenet5", "lenet5 cannot take the images of own, 3x8x8"),
        ("my_models", "there is no model 'my_models'"),
    ],
)
def test_a_model_that_does_not_fit_is_named(
    model: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--data", "photos", "--model", model, "--out", "run", *SMALL]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_without_recipe_data_and_model_the_message_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train"]) == 2
    assert "signwise train --data FOLDER --model package.module:function" in capsys.readouterr().err
    assert main(["train", "--data", "no-folder", "--model", "lenet5", "--out", "run", *SMALL]) == 2
    assert "no-folder" in capsys.readouterr().err
