"""The quickstart: two trainings, two files, a table, a figure; and it resumes where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from signwise.cli import main
from signwise.errors import SignwiseError
from signwise.program import load
from signwise.quickstart import BITS, Bars, Row, short_recipe, table, train_side_by_side
from signwise.training.run_folder import read_records

Finished = tuple[Path, Path, str]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, synthetic_data: Callable[..., Path]) -> Finished:
    """A quickstart on a few synthetic images: its folder, its data, and what it printed."""
    out = tmp_path_factory.mktemp("quickstart") / "out"
    data = synthetic_data("mnist", train=200, test=100)
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr("sys.stdout", _Recorder(lines))
        code = main(["quickstart", "--out", str(out), "--epochs", "1", "--train-samples", "200", "--data", str(data)])
    assert code == 0
    return out, data, "".join(lines)


class _Recorder:
    def __init__(self, lines: list[str]) -> None:
        self.write = lines.append

    def flush(self) -> None:
        return None

    def isatty(self) -> bool:
        return False


@pytest.mark.slow
def test_both_networks_are_trained_packed_and_shown(finished: Finished) -> None:
    out, _, shown = finished
    for bits in BITS:
        assert len(read_records(out / f"lenet5-{bits}bit" / "metrics.jsonl")) == 1
        assert f"{bits} bit  epoch 1/1: error" in shown
        assert load(out / f"lenet5-{bits}bit.sw").program.about["dataset"] == "mnist"
    assert (out / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert str(out / "comparison.png") in shown


def test_bars_are_there_before_the_first_step() -> None:
    tasks = Bars(short_recipe(bits) for bits in BITS).progress.tasks
    assert [(task.description, task.fields["reading"]) for task in tasks] == [
        ("32 bit", "starting"),
        (" 1 bit", "starting"),
    ]


@pytest.mark.slow
def test_the_table_shows_the_sizes_on_disk(finished: Finished) -> None:
    out, _, shown = finished
    for bits in BITS:
        assert f"{(out / f'lenet5-{bits}bit.sw').stat().st_size:,}" in shown
    small, large = ((out / f"lenet5-{bits}bit.sw").stat().st_size for bits in (1, 32))
    assert 20 * small < large


@pytest.mark.slow
def test_a_complete_training_is_not_repeated(finished: Finished) -> None:
    out, data, _ = finished
    before = {path: path.read_bytes() for path in out.glob("*/last.safetensors")}
    recipes = {out / f"lenet5-{bits}bit": short_recipe(bits, epochs=1, train_samples=200) for bits in BITS}
    train_side_by_side(recipes, data)
    assert before == {path: path.read_bytes() for path in out.glob("*/last.safetensors")}
    assert all(len(read_records(folder / "metrics.jsonl")) == 1 for folder in recipes)


@pytest.mark.slow
def test_a_training_that_cannot_start_says_why(tmp_path: Path, digits: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(SignwiseError, match="cannot write to"):
        train_side_by_side({blocked: short_recipe(1, epochs=1, train_samples=20)}, digits)


def test_the_short_recipes_differ_in_bits_and_rates_alone() -> None:
    one, full = (short_recipe(bits).to_json() for bits in (1, 32))
    differing = {name for name in one if one[name] != full[name]}
    assert differing <= {"bits", "learning_rate", "weight_decay", "decay_factor", "decay_at", "t_alpha"}
    assert one["epochs"] == full["epochs"] == 4


def test_the_columns_of_the_table_are_aligned() -> None:
    rows = [
        Row(name="short", bits=32, error=1.0, size=1_700_000, seconds=400e-6),
        Row(name="a longer name", bits=1, error=10.25, size=80_000, seconds=65.4e-6),
    ]
    lines = table(rows).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "10.25 %" in lines[2] and "80,000" in lines[2] and lines[2].endswith("65")
