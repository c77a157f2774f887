"""A run from its first step to its last, and the events that it reports on the way.

The order of writing makes it safe to kill a run at any moment: first an epoch's best weights, then its records, then
the checkpoint that counts it. After a kill the newest checkpoint is read, records of later epochs are dropped, and the
steps since then are repeated with the same result.
"""

from __future__ import annotations

import dataclasses
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Union

from signwise.diagnose import flip_ratio, health, relative_step, signs_of
from signwise.layers import relaxed
from signwise.training import checkpoint
from signwise.training.checkpoint import Progress, capture, model_tensors
from signwise.training.evaluate import Score, reestimated_batch_norm, score
from signwise.training.recipe import Recipe
from signwise.training.run_folder import RunFolder
from signwise.training.step import Stepper


@dataclass(frozen=True, kw_only=True)
class Started:
    """A run starts, or resumes if ``step`` is not 0; the model holds the α and ζ of its next step.

    Args:
        recipe: what the run learns.
        folder: the run's folder, or ``None`` if nothing is written.
        step: steps done in earlier attempts.
        total_steps: steps of the whole run.
        best_error: the lowest error of earlier attempts, in percent.
        seconds: time spent in earlier attempts.
        notes: sentences about damaged files that were skipped, and about what differs from earlier attempts.
    """

    recipe: Recipe
    folder: Path | None
    step: int
    total_steps: int
    best_error: float | None
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The state of training in the middle of an epoch.

    Args:
        epoch: the epoch, from 1.
        step: steps done.
        total_steps: steps of the whole run.
        loss: mean loss of the epoch so far.
        alpha: α of the last step, or ``None`` with 32 bits.
        zeta: ζ of the last step, or ``None``.
        images_per_second: speed of all processes together.
        seconds_left: estimated time to the end.
    """

    epoch: int
    step: int
    total_steps: int
    loss: float
    alpha: float | None
    zeta: float | None
    images_per_second: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """One line of ``metrics.jsonl``: an epoch that has been evaluated.

    Args:
        epoch: the epoch, from 1.
        step: steps done.
        train_loss: mean loss over the epoch's training images, as they were trained on.
        train_error: wrong predictions on them, in percent.
        error: test error of the deployed weights sign(φ), in percent.
        loss: test loss of the deployed weights.
        relaxed_error: test error of the relaxed weights w_α, or ``None`` with 32 bits or where it was not measured.
        relaxed_loss: their test loss, or ``None``.
        alpha: α of the last step, or ``None``.
        zeta: ζ of the last step, or ``None``.
        degenerate_groups: groups with fewer than two weights of one sign.
        flipped_signs: the fraction of signs that differ between the start and the end of the epoch, or ``None`` with
            32 bits or where the start is not known.
        relative_step: η‖∇φ‖ / ‖φ‖ of the epoch's last step, the geometric mean over the binary layers, or ``None``.
        learning_rate: learning rate of the last step.
        weight_decay: weight decay of the last step.
        images_per_second: training speed of all processes together.
        seconds: time spent, over all attempts.
    """

    epoch: int
    step: int
    train_loss: float
    train_error: float
    error: float
    loss: float
    relaxed_error: float | None
    relaxed_loss: float | None
    alpha: float | None
    zeta: float | None
    degenerate_groups: int
    flipped_signs: float | None
    relative_step: float | None
    learning_rate: float
    weight_decay: float
    images_per_second: float
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The fields by name; JSON has no NaN and no infinity, so they become ``None``."""
        fields = dataclasses.asdict(self)
        return {name: value if _is_json_number(value) else None for name, value in fields.items()}


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint is on disk.

    Args:
        step: steps that it counts.
        epochs: epochs that it counts.
    """

    step: int
    epochs: int


Event = Union[Started, Reading, EpochRecord, Saved]


class Reporter(Protocol):
    """Receives the events of a run, on rank 0."""

    reading_seconds: float | None = None
    """Seconds between two readings; ``None`` for none. Taking one makes the CPU wait for an accelerator."""

    @abstractmethod
    def report(self, event: Event) -> None:
        """Take an event; ignore what does not matter here."""

    def close(self) -> None:
        """The run has ended, well or not."""
        return


class Loop:
    """Steps, evaluations and checkpoints of one run; :func:`signwise.training.train` is the way in.

    Args:
        stepper: the model in training.
        progress: where the run starts.
        folder: the run's folder, or ``None`` to write nothing.
        reporters: receive the events.
        checkpoint_minutes: the longest time between two checkpoints.
        relaxed_every: test the relaxed weights after every so many epochs, and after the last.
        should_stop: asked before each step; true stops the run after that step.
    """

    def __init__(
        self,
        stepper: Stepper,
        progress: Progress,
        folder: RunFolder | None = None,
        *,
        reporters: Sequence[Reporter] = (),
        checkpoint_minutes: float = 3.0,
        relaxed_every: int = 1,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.stepper, self.progress = stepper, progress
        self._folder, self._reporters, self._should_stop = folder, reporters, should_stop
        self._checkpoint_seconds, self._relaxed_every = 60 * checkpoint_minutes, relaxed_every
        self._first_step = progress.step
        self._seconds_before = progress.seconds
        self._started = self._saved = self._epoch_started = time.monotonic()
        self._last_reading = {id(reporter): self._started for reporter in reporters}
        self._epoch_images = 0
        self._announced = self.stopped = False

    def run(self, steps: int | None = None, *, notes: tuple[str, ...] = ()) -> None:
        """Train to the end, for ``steps`` steps, or until the run should stop.

        Args:
            steps: number of steps; ``None`` for all remaining ones.
            notes: for the first event, see :class:`Started`.
        """
        stepper, progress = self.stepper, self.progress
        end = stepper.total_steps if steps is None else min(progress.step + steps, stepper.total_steps)
        stepper.model.train()
        if not self._announced:
            self._announced = True
            self._report_start(notes)
        while progress.step < end and not self.stopped:
            result = stepper.step(progress.step, stop=self._should_stop())
            if progress.step % stepper.check_every == 0:
                self.stopped = bool(result.stops > 0)
            self._epoch_images += stepper.batch_size
            progress.step += 1
            if progress.step % stepper.steps_per_epoch == 0:
                self._finish_epoch()
            elif self.stopped or time.monotonic() - self._saved > self._checkpoint_seconds:
                self._save()
            self._report_reading()

    def _report(self, event: Event) -> None:
        for reporter in self._reporters:
            reporter.report(event)

    def _report_start(self, notes: tuple[str, ...]) -> None:
        stepper, progress = self.stepper, self.progress
        stepper.apply_schedules(progress.step)
        self._report(
            Started(
                recipe=stepper.recipe,
                folder=None if self._folder is None else self._folder.path,
                step=progress.step,
                total_steps=stepper.total_steps,
                best_error=progress.best_error,
                seconds=progress.seconds,
                notes=notes,
            )
        )

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _speed(self) -> float:
        return self._epoch_images / max(time.monotonic() - self._epoch_started, 1e-9)

    def _alpha_zeta(self) -> tuple[float | None, float | None]:
        schedule, step = self.stepper.schedule, self.progress.step - 1
        return (None, None) if schedule is None else (schedule.alpha(step), schedule.zeta(step))

    def _report_reading(self) -> None:
        now = time.monotonic()
        due = [
            reporter
            for reporter in self._reporters
            if reporter.reading_seconds is not None
            and now - self._last_reading[id(reporter)] >= reporter.reading_seconds
        ]
        step, stepper = self.progress.step, self.stepper
        # Right after an evaluation the new epoch has no images yet, and no mean loss.
        images = (step % stepper.steps_per_epoch) * stepper.batch_size
        if not due or not images:
            return
        alpha, zeta = self._alpha_zeta()
        reading = Reading(
            epoch=1 + step // stepper.steps_per_epoch,
            step=step,
            total_steps=stepper.total_steps,
            loss=float(stepper.totals[0]) / images,
            alpha=alpha,
            zeta=zeta,
            images_per_second=self._speed(),
            seconds_left=self._elapsed() * (stepper.total_steps - step) / (step - self._first_step),
        )
        for reporter in due:
            reporter.report(reading)
            self._last_reading[id(reporter)] = now

    def _finish_epoch(self) -> None:
        stepper, progress = self.stepper, self.progress
        speed = self._speed()
        train_loss, train_errors = (stepper.totals / (stepper.steps_per_epoch * stepper.batch_size)).tolist()
        progress.epochs += 1
        # Each process has batch-norm statistics of its own shards; rank 0's are evaluated and saved.
        stepper.world.broadcast_(list(stepper.model.buffers()))
        with_relaxed = self._relaxed_score()
        with self._batch_norm():
            deployed = score(stepper.model, stepper.data.test, stepper.world)
            progress.last_error = deployed.error
            if progress.best_error is None or deployed.error < progress.best_error:
                progress.best_error, progress.best_epoch = deployed.error, progress.epochs
                self._write_weights("best")
            if progress.step == stepper.total_steps:
                self._write_weights("last")
        alpha, zeta = self._alpha_zeta()
        self._report(
            EpochRecord(
                epoch=progress.epochs,
                step=progress.step,
                train_loss=train_loss,
                train_error=100 * train_errors,
                error=deployed.error,
                loss=deployed.loss,
                relaxed_error=None if with_relaxed is None else with_relaxed.error,
                relaxed_loss=None if with_relaxed is None else with_relaxed.loss,
                alpha=alpha,
                zeta=zeta,
                degenerate_groups=sum(layer.degenerate_groups for layer in health(stepper.model)),
                flipped_signs=self._flipped_signs(),
                relative_step=_geometric_mean(relative_step(stepper.model, stepper.optimizer).values()),
                learning_rate=stepper.optimizer.param_groups[0]["lr"],
                weight_decay=stepper.optimizer.param_groups[0]["weight_decay"],
                images_per_second=speed,
                seconds=self._seconds_before + self._elapsed(),
            )
        )
        stepper.totals.zero_()
        self._save()
        self._epoch_images, self._epoch_started = 0, time.monotonic()
        self._last_reading = dict.fromkeys(self._last_reading, self._epoch_started)

    def _flipped_signs(self) -> float | None:
        before, after = self.stepper.signs, signs_of(self.stepper.model)
        if not before:
            return None
        sizes = {name: signs.numel() for name, signs in after.items()}
        ratios = flip_ratio(before, after)
        return sum(ratios[name] * size for name, size in sizes.items()) / sum(sizes.values())

    def _relaxed_score(self) -> Score | None:
        is_last = self.progress.step == self.stepper.total_steps
        if self.stepper.schedule is None or not (is_last or self.progress.epochs % self._relaxed_every == 0):
            return None
        with relaxed(self.stepper.model):
            return score(self.stepper.model, self.stepper.data.test, self.stepper.world)

    def _batch_norm(self) -> AbstractContextManager[None]:
        count = self.stepper.recipe.reestimate_batch_norm
        if count == 0:
            return nullcontext()
        return reestimated_batch_norm(self.stepper.model, self.stepper.data.train.images[:count])

    def _write_weights(self, name: str) -> None:
        if self._folder is not None:
            progress = self.progress
            record = {"kind": "weights", "epoch": progress.epochs, "step": progress.step, "error": progress.last_error}
            path = self._folder.path / f"{name}.safetensors"
            checkpoint.write_tensors(path, model_tensors(self.stepper.model), record)

    def _save(self) -> None:
        # Weights that are not finite must not replace good ones.
        self.stepper.check_weights(self.progress.step - 1)
        self._saved = time.monotonic()
        if self._folder is not None:
            self.progress.seconds = self._seconds_before + self._elapsed()
            checkpoint.write(self._folder.path, capture(self.stepper, self.progress))
            self._saved = time.monotonic()
            self._report(Saved(step=self.progress.step, epochs=self.progress.epochs))


def _geometric_mean(values: Iterable[float]) -> float | None:
    logarithms = [math.log(value) for value in values if value > 0]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else None


def _is_json_number(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
