from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from signwise.cli import main
from signwise.program import Program, load
from signwise.program import operations as ops


@pytest.fixture(scope="module")
def data(synthetic_data: Callable[..., Path]) -> Path:
    return synthetic_data("mnist", train=20, test=130)


def brightness(tmp_path: Path, shape: tuple[int, ...], about: dict[str, str]) -> str:
    """A file that scores an image by the sum of its pixels, for one class alone."""
    weight = np.full((1, (int(np.prod(shape)) + 7) // 8), 255, np.uint8)
    operations = (
        ops.Flatten(inputs=(0,)),
        ops.Dense(inputs=(1,), weight="w", bits=1, out_features=1, in_features=int(np.prod(shape))),
    )
    path = tmp_path / "net.sw"
    Program(input_shape=shape, ops=operations, tensors={"w": weight}, output=2, about=about).save(path)
    return str(path)


@pytest.mark.parametrize("samples", [None, 70])
def test_a_shipped_program_is_tested_by_its_name(
    data: Path, samples: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    from signwise import datasets

    more = [] if samples is None else ["--samples", str(samples)]
    assert main(["eval", "lenet5-mnist-1bit", "--data", str(data), "--json", "--threads", "1", *more]) == 0
    report = json.loads(capsys.readouterr().out)
    images = datasets.load("mnist", data)
    count = samples or 130
    outputs = load("lenet5-mnist-1bit")(images.test_images[:count])
    wrong = int((outputs.argmax(1) != images.test_labels[:count]).sum())
    assert report["images"] == count and report["error"] == pytest.approx(100 * wrong / count)
    assert report["dataset"] == report["about"]["dataset"] == "mnist"


def test_the_data_set_that_a_file_does_not_name_is_asked_for(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = brightness(tmp_path, (1, 28, 28), {})
    assert main(["eval", file, "--data", str(data)]) == 2
    assert "does not name its data set: give it with --dataset" in capsys.readouterr().err
    assert main(["eval", file, "--data", str(data), "--dataset", "mnist"]) == 0
    assert "on 130 test images" in capsys.readouterr().out


def test_images_of_another_shape_are_refused(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = brightness(tmp_path, (1, 8, 8), {"dataset": "mnist"})
    assert main(["eval", file, "--data", str(data)]) == 2
    assert "takes images of (1, 8, 8), mnist has (1, 28, 28)" in capsys.readouterr().err


def test_a_target_that_is_neither_file_nor_name_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "lenet5-mnist"]) == 2
    assert "did you mean lenet5-mnist-1bit?" in capsys.readouterr().err
