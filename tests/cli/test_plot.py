"""``signwise plot``: figures of a run, finished or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from signwise.cli import main
from signwise.training import Options, get_recipe
from signwise.training.run import train

pytestmark = pytest.mark.slow

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def run(synthetic_data: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs with two watched layers."""
    folder = tmp_path_factory.mktemp("run")
    options = Options(data=synthetic_data("mnist"), device="cpu", threads=1, tensorboard=False, watch=("conv*",))
    train(get_recipe("lenet5-mnist").changed(epochs=2, batch_size=50), folder, options=options)
    return folder


def test_each_watched_layer_and_the_errors_are_drawn(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(run)]) == 0
    written = capsys.readouterr().out.split()
    assert [Path(path).name for path in written] == ["errors.png", "movement.png", "state-conv1.png", "state-conv2.png"]
    assert all(Path(path).read_bytes().startswith(PNG) for path in written)


def test_figures_go_to_the_given_folder_in_the_given_format(run: Path, tmp_path: Path) -> None:
    assert main(["plot", str(run), "--out", str(tmp_path / "new"), "--format", "svg"]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "errors.svg",
        "movement.svg",
        "state-conv1.svg",
        "state-conv2.svg",
    ]


def test_a_run_without_an_epoch_and_a_folder_without_a_run_give_different_errors(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(json.loads((run / "config.json").read_text())))
    assert main(["plot", str(tmp_path)]) == 2
    assert "has not finished an epoch yet" in capsys.readouterr().err
    assert main(["plot", str(tmp_path / "nothing")]) == 2
    assert "holds no run" in capsys.readouterr().err
