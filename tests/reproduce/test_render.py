"""Rendering: from records alone, the same every time, and never by training."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from signwise.reproduce.records import Record, record_run
from signwise.reproduce.render import FIGURES, render
from signwise.training import get_recipe


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a process or training in this one fails."""

    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError("rendering must not train")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr("signwise.training.run.train", refuse)
    monkeypatch.setattr("signwise.training.step.Stepper.step", refuse)


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
@pytest.mark.usefixtures("no_training")
def test_a_new_record_changes_tables_and_figures_and_nothing_else_does(
    made_up: Callable[..., Record], small_run: Path, tmp_path: Path
) -> None:
    lenet5 = [made_up(get_recipe("lenet5-mnist", bits), best=0.4 + bits / 100, last=0.8) for bits in (1, 32)]
    files = render("all", lenet5, tmp_path)
    assert "| LeNet5 on MNIST | 1 | 0.53 | 0.41 | -0.12 |" in (tmp_path / "table1.md").read_text()
    assert {path.name for path in files if path.suffix == ".png"} == {"accuracy.png", "bits.png"}
    before = _contents(tmp_path)
    render("all", lenet5, tmp_path)
    assert _contents(tmp_path) == before

    files = render("all", [*lenet5, record_run(small_run)], tmp_path)
    assert tmp_path / "state.png" in files
    assert _contents(tmp_path)["bits.png"] != before["bits.png"]


def test_lines_that_differ_in_a_setting_alone_are_told_apart_in_the_figure(made_up: Callable[..., Record]) -> None:
    short = get_recipe("lenet5-mnist").changed(epochs=10, learning_rate=0.05)
    tuned = short.changed(init_from="lenet5-mnist-32bit-0")
    by_mean, alone = tuned.changed(method="mean_sign"), get_recipe("tiny_cnn-mnist")
    recipes = (short, short.changed(initialization="glorot"), tuned, by_mean, alone)
    figure = FIGURES["accuracy"]([made_up(each) for each in recipes])
    assert figure is not None
    lines = {place.get_title(loc="left")[5:]: place.get_legend_handles_labels()[1] for place in figure.axes[::2]}
    assert lines == {
        "LeNet5 on MNIST, 10 epochs": ["1 bit, $T_α$ = 0.9", "1 bit, $T_α$ = 0.9, initialization\nglorot"],
        "LeNet5 on MNIST, 10 epochs, fine-tuned": ["1 bit, $T_α$ = 0.9", "1 bit, mean sign (DoReFa, LSBQ)"],
    }, "a line with nothing to compare it to is left out"


def test_a_target_renders_its_own_parts_alone(made_up: Callable[..., Record], tmp_path: Path) -> None:
    files = render("alpha", [made_up(get_recipe("lenet5-mnist").changed(epochs=10))], tmp_path)
    # No table 5 was measured: its text says so, and there is no empty CSV.
    assert {path.name for path in files} == {"alpha.md", "short.md", "short.csv", "provenance.md", "provenance.csv"}
