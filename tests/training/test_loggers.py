"""The reporters for Weights & Biases and MLflow, with the real packages and without the network."""

from __future__ import annotations

import importlib
import importlib.util
import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from signwise.errors import SignwiseError
from signwise.training import Options, get_recipe, train
from signwise.training.loggers import logger_reporters
from signwise.training.loop import Event, Reporter, Saved
from signwise.training.run_folder import read_records

RECIPE = get_recipe("lenet5-mnist").changed(epochs=3, train_samples=200, test_samples=100)
pytestmark = pytest.mark.filterwarnings("ignore:::(wandb|mlflow|google|pydantic|sqlalchemy|alembic)")


class Dies(Exception):  # noqa: N818 - it stands for the end of the process
    pass


class DiesAfterTwoEpochs(Reporter):
    def report(self, event: Event) -> None:
        if isinstance(event, Saved) and event.epochs == 2:
            raise Dies


def train_twice(folder: Path, logger: str) -> list[dict[str, Any]]:
    """Train with an interruption after the second epoch; returns the records of the epochs."""
    options: dict[str, Any] = {"log_to": (logger,), "device": "cpu", "tensorboard": False}
    with pytest.raises(Dies):
        train(RECIPE, folder, options=Options(**options), reporters=[DiesAfterTwoEpochs()])
    first = (folder / f"{logger}-run").read_text()
    train(RECIPE, folder, options=Options(**options, resume=True))
    assert (folder / f"{logger}-run").read_text() == first, "the same run goes on"
    return read_records(folder / "metrics.jsonl")


def test_mlflow_has_the_recipe_and_one_point_per_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    records = train_twice(tmp_path / "run", "mlflow")
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("signwise").experiment_id])
    assert run.info.status == "FINISHED" and run.info.run_name == "run"
    assert run.data.params["epochs"] == "3" and run.data.params["method"] == RECIPE.method
    points = client.get_metric_history(run.info.run_id, "test/error")
    assert [(point.step, point.value) for point in points] == [(row["step"], row["error"]) for row in records]


def test_wandb_has_one_point_per_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    records = train_twice(tmp_path / "run", "wandb")
    first, second = sorted((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))
    assert first.name == second.name, "both attempts belong to one run"
    logged = [point for path in (first, second) for point in logged_to_wandb(path) if "test/error" in point]
    assert [(point["step"], point["test/error"]) for point in logged] == [
        (row["step"], row["error"]) for row in records
    ]


def logged_to_wandb(path: Path) -> list[dict[str, Any]]:
    """The points in a file of wandb's, a log in LevelDB's format: blocks of chunks, each with a header of 7 bytes."""
    protocol: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    content, whole, points = path.read_bytes(), b"", []
    position = 7  # the file's own header
    while position + 7 <= len(content):
        if 32768 - position % 32768 < 7:
            position += 32768 - position % 32768  # the rest of the block is padding
            continue
        length, kind = struct.unpack_from("<HB", content, position + 4)
        whole += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # a full record, or the last part of one
            record = protocol.Record.FromString(whole)
            whole = b""
            if record.WhichOneof("record_type") == "history":
                points.append(
                    {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                )
    return points


def test_a_missing_package_is_named_with_the_way_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("wandb") is not None:
        monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(SignwiseError, match=r"needs wandb: .*pip install wandb"):
        logger_reporters(["wandb"], tmp_path)


def test_an_unknown_logger_is_refused_by_name() -> None:
    with pytest.raises(SignwiseError, match="log_to must be of wandb, mlflow, got neptune"):
        Options(log_to=("neptune",))
