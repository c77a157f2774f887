"""Rendering: from records alone, the same every time, and never by training."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from signwise.reproduce.from_run import record_run
from signwise.reproduce.markers import fill_file, names
from signwise.reproduce.record import Record, read_all

from signwise.reproduce.render import FOLDER, blocks, drawn_from, render
from signwise.training import recipe

REPOSITORY = Path(__file__).parents[2]
RESULTS, PAGE = REPOSITORY / "results", REPOSITORY / "docs" / "results.md"


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts a process, or trains in this one, fails."""

    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError("rendering must not train")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr("signwise.training.run.train", refuse)
    monkeypatch.setattr("signwise.training.stepper.Stepper.update", refuse)


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.usefixtures("no_process")
def test_rendering_the_published_results_again_changes_nothing(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    shutil.copy(PAGE, tmp_path / "results.md")
    records = read_all(tmp_path / "results")
    render("all", records, tmp_path / "results")
    fill_file(tmp_path / "results.md", blocks(records, tmp_path / "results"))
    assert _contents(tmp_path / "results") == _contents(RESULTS)
    assert (tmp_path / "results.md").read_bytes() == PAGE.read_bytes()


def test_the_published_figures_are_drawn_from_the_published_records() -> None:
    digest = drawn_from(read_all(RESULTS)).encode()
    # README's picture lies in the same folder, but is drawn from the benchmarks' records and checked with them.
    page = PAGE.read_text()
    figures = [path for path in (RESULTS / FOLDER).glob("*.png") if path.name in page]
    assert figures
    for path in figures:
        assert digest in path.read_bytes(), f"{path.name} is older than its records: signwise reproduce all --no-train"


def test_every_image_of_the_page_exists() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("![")]
    for line in lines:
        assert (PAGE.parent / line.split("](")[1].rstrip(")")).exists(), line


@pytest.mark.usefixtures("no_process")
def test_a_new_record_changes_the_page_and_the_figures(
    made_up: Callable[..., Record], small_run: Path, tmp_path: Path
) -> None:
    lenet5 = [made_up(recipe("lenet5-mnist", bits), best=0.4 + bits / 100, last=0.8) for bits in (1, 32)]
    page = tmp_path / "page.md"
    shutil.copy(PAGE, page)
    files = render("all", lenet5, tmp_path)
    assert (
        fill_file(page, blocks(lenet5, tmp_path)) and "| MNIST | LeNet5 | 1 | 0.53 | 0.41 | -0.12 |" in page.read_text()
    )
    assert {path.name for path in files if path.suffix == ".png"} == {"accuracy.png", "bits.png"}
    before = _contents(tmp_path)
    render("all", lenet5, tmp_path)
    assert _contents(tmp_path) == before

    more = [*lenet5, record_run(small_run)]
    files = render("all", more, tmp_path)
    assert tmp_path / FOLDER / "state.png" in files
    assert _contents(tmp_path)["rendered/bits.png"] != before["rendered/bits.png"]


def test_a_target_renders_its_own_parts_alone(made_up: Callable[..., Record], tmp_path: Path) -> None:
    files = render("alpha", [made_up(recipe("lenet5-mnist"))], tmp_path)
    assert {path.name for path in files} == {
        f"{name}.{kind}" for name in ("alpha", "short", "provenance") for kind in ("md", "csv")
    }


def test_everything_that_is_rendered_has_a_place_on_the_page() -> None:
    assert sorted(names(PAGE.read_text())) == sorted(blocks([], Path("nowhere")))
