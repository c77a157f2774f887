"""``signwise plot`` and ``signwise report``: figures of runs, finished or not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from signwise.bench.runs import measure_run
from signwise.cli import main
from signwise.provenance import now, processor
from signwise.runtime import native
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
    assert [Path(path).name for path in written] == [
        f"{name}.png" for name in ("errors", "progress", "movement", "state-conv1", "state-conv2")
    ]
    assert all(Path(path).read_bytes().startswith(PNG) for path in written)


def test_figures_go_to_the_given_folder_in_the_given_format(run: Path, tmp_path: Path) -> None:
    assert main(["plot", str(run), "--out", str(tmp_path / "new"), "--format", "svg"]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "errors.svg",
        "movement.svg",
        "progress.svg",
        "state-conv1.svg",
        "state-conv2.svg",
    ]


def test_runs_are_compared_on_one_page_that_holds_everything(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "a & b"
    shutil.copytree(run, other)
    config = json.loads((run / "config.json").read_text())
    config["recipe"]["learning_rate"] = 0.5
    (other / "config.json").write_text(json.dumps(config))
    page = tmp_path / "page.html"
    assert main(["report", str(run), str(other), "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    text = page.read_text()
    assert "<td>learning_rate</td><td>0.01</td><td>0.5</td>" in text and "<td>a &amp; b</td>" in text
    # Size and speed, curves, and two layers of two runs.
    assert text.count("data:image/svg+xml;base64,") == 2 + 3 + 2 * 2
    assert not re.search(r"(src|href)=\"(?!data:)", text)


@pytest.mark.filterwarnings("ignore:compile. α is below 1")  # the best epoch may be the first
def test_size_on_the_page_is_that_of_the_packed_file(run: Path, tmp_path: Path) -> None:
    measured = measure_run(run, seconds=0.01)
    assert main(["compile", str(run), "-o", str(tmp_path / "net.sw"), "--validate", "0"]) == 0
    assert measured.size == (tmp_path / "net.sw").stat().st_size
    assert measured.seconds is not None and 0 < measured.seconds < 1
    assert main(["report", str(run), "-o", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text()
    assert f"<td>{measured.float32_bytes / 1e3:,.0f} KB</td><td>{measured.size / 1e3:,.0f} KB</td>" in text
    assert 'alt="µs per image, one thread"' in text
    assert f"{processor()}, " in text and f"{now()[:10]}.</p>" in text and f"with {native.isa()} kernels" in text


def test_speed_can_be_left_out(run: Path, tmp_path: Path) -> None:
    assert main(["report", str(run), "-o", str(tmp_path / "page.html"), "--no-speed"]) == 0
    text = (tmp_path / "page.html").read_text()
    assert "per image" not in text and "measured" not in text


def test_page_says_which_run_could_not_be_packed_and_why(run: Path, tmp_path: Path) -> None:
    without = tmp_path / "without"
    shutil.copytree(run, without, ignore=shutil.ignore_patterns("*.safetensors"))
    assert main(["report", str(run), str(without), "-o", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text()
    assert f"without was not measured: the run in {without} has no weights yet" in text
    assert 'alt="µs per image, one thread"' in text  # of the other run


def test_without_the_native_library_the_page_has_sizes_alone(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNWISE_LIBRARY", str(tmp_path / "none.so"))
    with pytest.warns(RuntimeWarning, match="without its native kernels"):
        assert main(["report", str(run), "-o", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text()
    assert "there is no native library" in text
    assert 'alt="KB, packed file"' in text and "per image, one thread" not in text


def test_plot_and_report_need_no_pytorch(run: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from signwise.cli import main; sys.exit(main(sys.argv[1:]))"
    for words in (["plot", str(run), "--out", str(tmp_path)], ["report", str(run), "-o", str(tmp_path / "page.html")]):
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
    assert "was not measured: packing a run needs torch" in (tmp_path / "page.html").read_text()


def test_a_run_without_an_epoch_and_a_folder_without_a_run_give_different_errors(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(json.loads((run / "config.json").read_text())))
    assert main(["plot", str(tmp_path)]) == 2
    assert "has not finished an epoch yet" in capsys.readouterr().err
    assert main(["plot", str(tmp_path / "nothing")]) == 2
    assert "holds no run" in capsys.readouterr().err
