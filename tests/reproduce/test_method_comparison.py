"""The comparison of methods: every method has a run, each run is trained once, and the records become tables."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signwise import methods
from signwise.layers import binary_layers
from signwise.reproduce import method_comparison
from signwise.reproduce.experiments import run_name
from signwise.reproduce.method_comparison import (
    AUTHORS,
    COMMON,
    RESNET,
    entries,
    measure_methods,
    measured,
    missing,
    record_path,
    resnet_entries,
)
from signwise.reproduce.method_tables import resnet_table
from signwise.training import Options, train
from signwise.training.checkpoint import read_tensors
from signwise.training.step import build_model


@pytest.fixture(scope="module")
def digits(synthetic_data: Callable[..., Path]) -> Path:
    return synthetic_data("mnist", train=100, test=50)


def test_every_method_has_a_common_run_that_differs_from_the_others_in_the_method_and_its_schedule_alone() -> None:
    common = {entry.label: entry.recipe for entry in entries() if entry.group == COMMON}
    assert common.keys() == {"32 bit", *methods.METHODS}
    shared = {"optimizer", "learning_rate", "weight_decay", "decay", "batch_size", "epochs", "train_samples"}
    assert len({tuple(getattr(recipe, name) for name in sorted(shared)) for recipe in common.values()}) == 1
    assert len({run_name(entry.recipe) for entry in entries()}) == len(entries())


def test_binary_connect_takes_its_authors_rule_for_the_optimizer_in_use() -> None:
    recipe = next(entry.recipe for entry in entries() if entry.label == "binary_connect")
    powers = {}
    for optimizer in ("adam", "sgdw"):
        layers = binary_layers(build_model(recipe.changed(optimizer=optimizer), 10))
        powers[optimizer] = {getattr(layer.method, "power", None) for _, layer in layers}
    assert powers == {"adam": {1}, "sgdw": {2}}


@pytest.mark.slow
def test_a_run_is_trained_once_and_an_interrupted_comparison_goes_on(digits: Path, tmp_path: Path) -> None:
    wanted = [entry for entry in entries(epochs=1, images=100) if entry.label in ("mean_sign", "32 bit")]
    options, said = Options(data=digits, device="cpu", tensorboard=False), list[str]()
    measure_methods(tmp_path, said.append, options=options, seeds=[1], wanted=wanted[:1])
    assert [entry.label for entry in missing(tmp_path, wanted, 1)] == ["mean_sign", "mean_sign"]
    for _ in range(2):
        measure_methods(tmp_path, said.append, options=options, seeds=[1], wanted=wanted)
    assert len(said) == len(wanted) == 3 and not missing(tmp_path, wanted, 1)
    document = json.loads(record_path(tmp_path, 1).read_text())
    assert document["seed"] == 1 and {"date", "versions", "hardware", "revision"} <= document.keys()
    assert all(run["best_error"] == run["last_error"] and run["steps"] == 1 for run in document["runs"])
    assert {key: len(runs) for key, runs in measured(tmp_path, wanted).items()} == {
        (COMMON, "32 bit"): 1,
        (COMMON, "mean_sign"): 1,
        (AUTHORS, "mean_sign"): 1,
    }


@pytest.mark.slow
def test_every_method_on_resnet20_starts_from_one_float_network(
    synthetic_data: Callable[..., Path], tmp_path: Path
) -> None:
    wanted = [entry for entry in resnet_entries(1, 2, images=128) if entry.label in ("mean_sign", "bwn", "32 bit")]
    options = Options(data=synthetic_data("cifar10", train=128, test=20), device="cpu", tensorboard=False)
    runs, said = tmp_path / "runs", list[str]()
    measure_methods(tmp_path, said.append, options=options, seeds=[1], wanted=wanted, runs=runs)
    name = "resnet20_fast-cifar10-32bit-epochs2-trainsamples128-0"
    assert [folder.name for folder in runs.iterdir()] == [name]
    document = json.loads(record_path(tmp_path, 1).read_text())
    assert {run["start"] for run in document["runs"]} == {name}
    (error,) = {run["start_error"] for run in document["runs"]}
    assert not missing(tmp_path, wanted, 1)
    longer = [entry for entry in resnet_entries(1, 3, images=128) if entry.label == "bwn"]
    assert missing(tmp_path, longer, 1) == longer and not measured(tmp_path, longer), (
        "another float network, other runs"
    )
    kept = read_tensors(tmp_path / f"{name}.safetensors")
    assert kept.record["error"] == error and kept.record["epoch"] == 2, "the network is kept beside the records"
    shutil.rmtree(runs)
    record_path(tmp_path, 1).unlink()
    measure_methods(tmp_path, said.append, options=options, seeds=[1], wanted=wanted[:1], runs=runs)
    assert not runs.exists(), "and is not trained again"
    (again,) = json.loads(record_path(tmp_path, 1).read_text())["runs"]
    first = document["runs"][0]
    assert again | {"origin": first["origin"]} == first and again["origin"].keys() == first["origin"].keys()
    measure_methods(tmp_path, said.append, options=options, seeds=[1], wanted=wanted, runs=runs)
    assert {key[0] for key in measured(tmp_path, wanted)} == {RESNET}
    assert resnet_table(tmp_path).rows == (), "a shorter run is another run"
    assert str(tmp_path) not in json.dumps(document), "a record names no folder of this machine"


def test_the_table_of_resnet20_ranks_every_method_and_has_one_per_row() -> None:
    rows = [entry for entry in resnet_entries() if entry.group == RESNET]
    assert [entry.label for entry in rows] == ["32 bit", *methods.METHODS]
    assert len({run_name(entry.recipe) for entry in rows}) == len(rows)


def test_a_run_that_is_in_two_tables_is_trained_once(tmp_path: Path) -> None:
    wanted = resnet_entries()
    names = [run_name(entry.recipe) for entry in missing(tmp_path, wanted, 0)]
    # T_α = 0.5 is also a method's own setting, and T_α = 0 with ζ from 1 on is a row of both.
    assert len(names) == len(set(names)) == len(wanted) - 2


def test_a_run_that_is_stopped_is_not_recorded(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = train
    wanted = [entry for entry in entries(epochs=1, images=100) if entry.label == "32 bit"]
    options = Options(data=digits, device="cpu", tensorboard=False)

    def stopped(*arguments: Any, **settings: Any) -> Any:
        return dataclasses.replace(real(*arguments, **settings), signal=15)

    monkeypatch.setattr(method_comparison, "train", stopped)
    with pytest.raises(KeyboardInterrupt):
        measure_methods(tmp_path, print, options=options, seeds=[0], wanted=wanted)
    assert not record_path(tmp_path, 0).exists()


def test_the_authors_settings_are_those_of_methods_that_exist() -> None:
    assert set(method_comparison._OF_AUTHORS) <= set(methods.METHODS)
