"""Records: small, complete, made from run folders, and read back as they were written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from signwise.errors import FormatError, SignwiseError
from signwise.reproduce.records import Record, by_recipe, read_training_records, record_run, write_record
from signwise.training import Recipe
from signwise.training.run_folder import read_records


def test_a_record_holds_the_numbers_of_its_run(small: Recipe, small_run: Path) -> None:
    record = record_run(small_run)
    rows = read_records(small_run / "metrics.jsonl")
    assert record.recipe == small and record.total_steps == 40
    assert record.result.best_error == min(row["error"] for row in rows)
    assert rows[record.result.best_epoch - 1]["error"] == record.result.best_error
    assert record.result.last_error == rows[-1]["error"] == record.curves["error"][-1]
    assert record.result.last_relaxed_error == rows[-1]["relaxed_error"]
    assert record.network == {"parameters": 431_650, "binary_weights": 425_500, "macs": 2_293_000}
    assert record.result.seconds_per_step > 0
    assert {"versions", "hardware", "revision", "started", "finished", "threads"} <= record.origin.keys()
    assert [row["epoch"] for row in record.state] == [0, 1, 2, 3, 4]
    assert sum(record.state[-1]["latent"]["counts"]) == sum(record.state[-1]["signs"].values())


def test_a_record_holds_no_path_on_the_machine(small_run: Path, digits: Path) -> None:
    text = record_run(small_run).to_json()
    assert str(small_run.parent) not in text and str(digits) not in text


def test_a_record_names_the_network_that_its_run_started_from_and_not_its_folder(
    small_run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "tuned"
    shutil.copytree(small_run, folder)
    config = json.loads((folder / "config.json").read_text())
    names = {
        "best.safetensors": "lenet5-mnist-1bit",
        "elsewhere/theirs.pt": "theirs",
        "elsewhere/theirs-0.pt": "theirs",  # the run's own seed
        "elsewhere/theirs-1.pt": "theirs-1",
    }
    for path, name in names.items():
        config["recipe"]["init_from"] = str(small_run / path)
        config["pretrained"] = {"path": str(small_run / path), "sha256": "0123"}
        (folder / "config.json").write_text(json.dumps(config))
        record = record_run(folder)
        assert record.recipe.init_from == name and record.origin["start"] == {"network": name, "sha256": "0123"}
        assert str(small_run) not in record.to_json()


def test_a_record_is_read_back_as_it_was_written(small_run: Path, tmp_path: Path) -> None:
    record = record_run(small_run)
    path = write_record(record, tmp_path / "results")
    (found,) = read_training_records(tmp_path / "results")
    assert path.name == "lenet5-mnist-1bit-epochs4-batchsize20-0.json"
    assert found.to_json() == record.to_json() == path.read_text()


def test_a_long_history_is_thinned_out_from_its_first_row_to_its_last(small_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "long"
    shutil.copytree(small_run, folder)
    row = read_records(folder / "state.jsonl")[-1]
    lines = [json.dumps(row | {"epoch": epoch, "step": 600 * epoch}) + "\n" for epoch in range(201)]
    (folder / "state.jsonl").write_text("".join(lines))
    record = record_run(folder)
    epochs = [state["epoch"] for state in record.state]
    assert epochs[0] == 0 and epochs[-1] == 200 and len(epochs) == len(set(epochs)) == 61
    assert len(record.to_json()) < 100_000


def test_an_unfinished_run_is_refused_with_the_way_to_finish_it(small_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(small_run, folder)
    config = json.loads((folder / "config.json").read_text())
    del config["finished"], config["result"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(SignwiseError, match=r"has not finished .*--resume"):
        record_run(folder)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "broken.json"),
        ('{"kind": "training", "version": 9}', "version 9"),
        ('{"kind": "training", "version": 1}', "incomplete"),
    ],
)
def test_a_damaged_record_is_reported_by_name(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(FormatError, match=complaint):
        read_training_records(tmp_path)


def test_records_of_another_kind_are_skipped(tmp_path: Path, made_up: Callable[..., Record], small: Recipe) -> None:
    (tmp_path / "inference.json").write_text('{"kind": "inference", "anything": [1, 2]}')
    (tmp_path / "list.json").write_text("[1, 2]")
    write_record(made_up(small), tmp_path)
    assert [record.recipe for record in read_training_records(tmp_path)] == [small]


def test_runs_that_differ_in_their_seed_alone_are_one_result(made_up: Callable[..., Record], small: Recipe) -> None:
    records = [made_up(small, best=0.5), made_up(small.changed(seed=1), best=0.7), made_up(small.changed(epochs=3))]
    first, second = by_recipe(records).values()
    assert (first.seeds, first.text("best_error"), second.seeds) == (2, "0.60 ± 0.14", 1)
    assert first.mean("best_error") == pytest.approx(0.6)
