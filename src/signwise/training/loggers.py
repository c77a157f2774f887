"""The numbers of a run in Weights & Biases and in MLflow, through their own packages.

Names and steps are those of the TensorBoard events. Where the numbers go is set the way each package sets it, such as
``WANDB_MODE=offline`` or ``MLFLOW_TRACKING_URI``. A resumed training adds to the same run: the folder of the training
keeps the run's identifier.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError
from signwise.invocation import install
from signwise.training.loop import EpochRecord, Event, Reading, Reporter, Started
from signwise.training.reporters import scalars_of


class _LoggerReporter(Reporter):
    """Opens a run of a logger when training starts, and gives it the numbers of each event."""

    reading_seconds = 5.0
    package: str

    def __init__(self, folder: Path) -> None:
        # Imported at once: a missing package ends the command before it trains.
        self._api = _import(self.package)
        self._folder, self._is_open = folder, False

    def report(self, event: Event) -> None:
        if isinstance(event, Started) and event.step < event.total_steps:
            identifier = self._folder / f"{self.package}-run"
            known = identifier.read_text(encoding="utf-8").strip() if identifier.exists() else None
            opened = self._open(event, known)
            identifier.write_text(opened + "\n", encoding="utf-8")
            self._is_open = True
        elif isinstance(event, Reading | EpochRecord) and self._is_open:
            self._log(scalars_of(event), event.step)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._end()

    def _open(self, event: Started, identifier: str | None) -> str:
        """Start a run, or continue the one with this identifier; returns its identifier."""
        raise NotImplementedError

    def _log(self, numbers: dict[str, float], step: int) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError


class WandbReporter(_LoggerReporter):
    """Numbers every few seconds and per epoch in Weights & Biases, with the recipe as the run's configuration."""

    package = "wandb"

    def _open(self, event: Started, identifier: str | None) -> str:
        self._run = self._api.init(
            project="signwise",
            name=self._folder.resolve().name,
            id=identifier,
            resume=None if identifier is None else "allow",
            config=event.recipe.to_json(),
            dir=str(self._folder),
        )
        # Not wandb's own count: it would drop the steps that an interrupted attempt had logged already.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")
        return str(self._run.id)

    def _log(self, numbers: dict[str, float], step: int) -> None:
        self._run.log(numbers | {"step": step})

    def _end(self) -> None:
        self._run.finish()


class MlflowReporter(_LoggerReporter):
    """Numbers every few seconds and per epoch in MLflow, with the recipe as the run's parameters."""

    package = "mlflow"

    def _open(self, event: Started, identifier: str | None) -> str:
        # A client of its own: the user's code may have an active run.
        self._client = self._api.MlflowClient()
        if identifier is not None:
            self._client.update_run(identifier, "RUNNING")
            self._run = identifier
            return identifier
        experiment = self._client.get_experiment_by_name("signwise")
        number = self._client.create_experiment("signwise") if experiment is None else experiment.experiment_id
        self._run = str(self._client.create_run(number, run_name=self._folder.resolve().name).info.run_id)
        for name, value in event.recipe.to_json().items():
            self._client.log_param(self._run, name, value)
        return self._run

    def _log(self, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._client.log_metric(self._run, name, value, step=step)

    def _end(self) -> None:
        self._client.set_terminated(self._run)


def logger_reporters(names: Sequence[str], folder: Path) -> list[Reporter]:
    """The reporters for these loggers.

    Raises:
        SignwiseError: a package is not installed.
    """
    classes = {"wandb": WandbReporter, "mlflow": MlflowReporter}
    return [classes[name](folder) for name in names]


def _import(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise SignwiseError(f"the logger needs {package}: {install(package)}") from None
