"""The shipped network: its file makes exactly the errors that its record states."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tools.ship import best_record, ship

from signwise import datasets, shipped
from signwise.errors import SignwiseError
from signwise.program import Program
from signwise.reproduce.records import Record, read_training_records, record_run
from signwise.training import Options, Recipe, get_recipe, train

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).parents[2] / "results"
# Bytes of the packed files.
LARGEST = {"lenet5-mnist": 90_000, "vgg_fast-cifar10": 280_000, "tiny_cnn-mnist": 15_000, "resnet8-cifar10": 22_000}


@pytest.fixture(scope="module")
def small_run(small: Recipe, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    train(small, folder, options=Options(data=digits, device="cpu", tensorboard=False))
    return folder


def _with(record: Record, recipe: Recipe, best: float) -> Record:
    return dataclasses.replace(record, recipe=recipe, result=dataclasses.replace(record.result, best_error=best))


def test_a_shipped_file_has_the_error_of_its_record(small_run: Path, digits: Path, tmp_path: Path) -> None:
    record = record_run(small_run)
    path = ship(small_run, record, tmp_path / "new", data=digits)
    program = Program.load(path)
    data = datasets.load("mnist", digits)
    assert path.name == "lenet5-mnist-1bit.sw" and path.stat().st_size < 90_000
    assert 100 * program.error(data.test_images, data.test_labels) == pytest.approx(record.result.best_error)
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


def test_the_best_full_run_with_one_bit_is_shipped(small: Recipe) -> None:
    lenet5, (any_record, *_) = get_recipe("lenet5-mnist"), read_training_records(RESULTS)
    best = _with(any_record, lenet5.changed(seed=2), 0.5)
    others = [
        _with(any_record, small, 0.1),
        _with(any_record, get_recipe("lenet5-mnist", 32), 0.2),
        _with(any_record, lenet5, 0.6),
    ]
    assert best_record([*others, best]) is best
    assert best_record(others[:2]) is None
    tuned = _with(any_record, lenet5.changed(epochs=10, init_from="runs/lenet5-mnist-32bit"), 0.4)
    partly = _with(any_record, tuned.recipe.changed(train_samples=60), 0.3)
    assert best_record([*others, best, tuned, partly]) is tuned


@pytest.mark.parametrize("name", [name.removesuffix("-1bit") for name in shipped.names()])
def test_a_network_in_the_package_has_the_error_of_its_published_record(
    name: str, request: pytest.FixtureRequest
) -> None:
    path = shipped.resolve(f"{name}-1bit")
    program = Program.load(path)
    record = best_record(read_training_records(RESULTS), name)
    assert record is not None and program.about["record"] == record.name
    # MNIST is in the package, other data sets are not.
    folder = None if record.recipe.dataset == "mnist" else request.getfixturevalue("real_data")
    data = datasets.load(record.recipe.dataset, folder)
    error = 100 * program.error(data.test_images, data.test_labels)
    assert round(error, 4) == record.result.best_error
    assert path.stat().st_size < LARGEST.get(name, 300_000)
