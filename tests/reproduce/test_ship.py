"""The shipped network: its file makes exactly the errors that its record tells."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from signwise import datasets, shipped
from signwise.errors import SignwiseError
from signwise.program import Program
from signwise.program.evaluate import error_rate
from signwise.reproduce.from_run import record_run
from signwise.reproduce.record import Record, read_all
from signwise.reproduce.ship import ship, worth_shipping
from signwise.training import Recipe, recipe

RESULTS = Path(__file__).parents[2] / "results"


def test_a_shipped_file_has_the_error_of_its_record(small_run: Path, digits: Path, tmp_path: Path) -> None:
    record = record_run(small_run)
    path = ship(small_run, record, tmp_path / "new", data=digits)
    program = Program.load(path)
    data = datasets.load("mnist", digits)
    assert path.name == "lenet5-mnist-1bit.sw" and path.stat().st_size < 90_000
    assert 100 * error_rate(program, data.test_images, data.test_labels) == pytest.approx(record.result.best_error)
    assert program.about["dataset"] == "mnist" and program.about["seed"] == "0"
    assert program.about["record"] == record.name


def test_shipping_the_same_run_again_gives_the_same_bytes(small_run: Path, digits: Path, tmp_path: Path) -> None:
    record = record_run(small_run)
    first, second = (ship(small_run, record, tmp_path / name, data=digits) for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


def test_a_file_that_contradicts_its_record_is_not_shipped(small_run: Path, digits: Path, tmp_path: Path) -> None:
    record = record_run(small_run)
    result = dataclasses.replace(record.result, best_error=record.result.best_error + 1)
    with pytest.raises(SignwiseError, match="not shipped"):
        ship(small_run, dataclasses.replace(record, result=result), tmp_path, data=digits)
    assert not list(tmp_path.iterdir())


def test_the_best_full_run_with_one_bit_is_worth_shipping(made_up: Callable[..., Record], small: Recipe) -> None:
    lenet5 = recipe("lenet5-mnist")
    best = made_up(lenet5.changed(seed=2), best=0.5)
    others = [made_up(small, best=0.1), made_up(recipe("lenet5-mnist", 32), best=0.2), made_up(lenet5, best=0.6)]
    assert worth_shipping([*others, best]) is best
    assert worth_shipping(others[:2]) is None


def test_the_network_in_the_package_has_the_error_of_its_published_record() -> None:
    path = shipped.resolve("lenet5-mnist-1bit")
    program = Program.load(path)
    record = worth_shipping(read_all(RESULTS))
    assert record is not None and program.about["record"] == record.name
    data = datasets.load("mnist")
    error = 100 * error_rate(program, data.test_images, data.test_labels)
    assert round(error, 4) == record.result.best_error
    assert path.stat().st_size < 90_000
