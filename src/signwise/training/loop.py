"""A run from its first step to its last, whatever happens in between.

The order of writing makes it safe to be killed at any moment: an epoch's best weights, then its lines of the records,
then the checkpoint that counts it. After a kill the newest checkpoint is read, lines of later epochs are dropped, and
the steps since then are done again, with the same result.
"""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from signwise.convert import relaxed
from signwise.diagnose import health
from signwise.layers import BinaryLayer
from signwise.training import checkpoint as checkpoints
from signwise.training.divergence import divergence
from signwise.training.evaluate import Score, reestimated_batch_norm, score
from signwise.training.events import Events
from signwise.training.layer_state import layer_state
from signwise.training.monitor import Monitor, Reading
from signwise.training.options import Options
from signwise.training.run_folder import RunFolder
from signwise.training.saved_state import Progress, capture
from signwise.training.stepper import Stepper
from signwise.training.stopping import Stop


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended.

    Args:
        folder: where its files are.
        progress: how far it came, and its errors.
        signal: the signal that stopped it early, or ``None``.
        is_main: whether this is the process that speaks.
    """

    folder: Path
    progress: Progress
    signal: int | None
    is_main: bool


class Loop:
    """Steps, evaluations and records of one run; see :func:`signwise.training.train` for the way in.

    Args:
        stepper: the network in training.
        test: images and labels of the test.
        layers: the layers whose state is recorded, by name.
        options: how the run is carried out.
        folder: the run's folder, or ``None`` in the processes that write nothing.
        progress: where the run starts.
        monitor: shows what happens.
        stop: tells when to stop early.
    """

    def __init__(
        self,
        stepper: Stepper,
        test: tuple[Tensor, Tensor],
        layers: dict[str, BinaryLayer],
        options: Options,
        folder: RunFolder | None,
        progress: Progress,
        monitor: Monitor,
        stop: Stop,
    ) -> None:
        self.stepper, self.progress = stepper, progress
        self._test, self._options, self._folder, self._monitor, self._stop = test, options, folder, monitor, stop
        self._layers = layers
        self._events = Events(options.out, progress.step, options.tensorboard and folder is not None)
        self._first_step = progress.step
        self._seconds_before = progress.seconds
        self._started = self._saved = self._epoch_started = time.monotonic()
        self._epoch_images = 0
        self.stopped = False
        # Reading a value makes an accelerator wait for the CPU, so there the loss is looked at now and then.
        self._look_every = 1 if stepper.world.device.type == "cpu" else 20

    def run(self, steps: int | None = None) -> None:
        """Train to the end, for so many steps, or until the run is asked to stop."""
        stepper, progress = self.stepper, self.progress
        end = stepper.total_steps if steps is None else min(progress.step + steps, stepper.total_steps)
        stepper.network.train()
        if progress.step == 0:
            stepper.prepare(0)
            self._record_state()
        while progress.step < end and not self.stopped:
            self._do_step(progress.step)
            progress.step += 1
            if progress.step % stepper.steps_per_epoch == 0:
                self._finish_epoch()
            elif self.stopped or time.monotonic() - self._saved > 60 * self._options.checkpoint_minutes:
                self._save()
            if self._monitor.due():
                self._show()

    def close(self) -> None:
        """Write out what TensorBoard still holds back."""
        self._events.close()

    def _do_step(self, step: int) -> None:
        stepper = self.stepper
        images, labels = stepper.batch(step)
        stepper.prepare(step)
        loss, wishes = stepper.forward_backward(images, labels, self._stop.asked)
        if step % self._look_every == 0:
            if not math.isfinite(value := float(loss)):
                raise self._diverged(value, images)
            self.stopped = bool(wishes > 0)
        stepper.update()
        self._epoch_images += stepper.batch_size

    def _diverged(self, loss: float, images: Tensor) -> Exception:
        step = self.progress.step
        rate = self.stepper.recipe.learning_rate
        return divergence(step, 1 + step // self.stepper.steps_per_epoch, loss, self.stepper.network, images, rate)

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _seconds_left(self) -> float:
        done = self.progress.step - self._first_step
        return self._elapsed() * (self.stepper.total_steps - self.progress.step) / max(done, 1)

    def _speed(self) -> float:
        return self._epoch_images / max(time.monotonic() - self._epoch_started, 1e-9)

    def _schedule(self, step: int) -> tuple[float | None, float | None]:
        schedule = self.stepper.binarization
        return (None, None) if schedule is None else (schedule.alpha(step), schedule.zeta(step))

    def _show(self) -> None:
        step, stepper = self.progress.step, self.stepper
        alpha, zeta = self._schedule(step - 1)
        # Just after an evaluation the new epoch has no images yet, and no mean loss.
        images = (step % stepper.steps_per_epoch) * stepper.batch_size
        if images:
            self._monitor.show(
                Reading(
                    epoch=1 + step // stepper.steps_per_epoch,
                    step=step,
                    total_steps=stepper.total_steps,
                    loss=float(stepper.totals[0]) / images,
                    alpha=alpha,
                    zeta=zeta,
                    images_per_second=self._speed(),
                    seconds_left=self._seconds_left(),
                )
            )

    def _finish_epoch(self) -> None:
        stepper, progress = self.stepper, self.progress
        speed = self._speed()
        train_loss, train_errors = (stepper.totals / (stepper.steps_per_epoch * stepper.batch_size)).tolist()
        progress.epochs += 1
        # Each process gathered batch-norm statistics of its own share; those of rank 0 are saved and evaluated.
        stepper.world.share_(list(stepper.network.buffers()))
        with_relaxed = self._relaxed_score()
        with self._batch_norm():
            deployed = score(stepper.network, *self._test, stepper.world)
            is_best = progress.best_error is None or deployed.error < progress.best_error
            progress.last_error = deployed.error
            if is_best:
                progress.best_error, progress.best_epoch = deployed.error, progress.epochs
                self._write_weights("best")
            if progress.step == stepper.total_steps:
                self._write_weights("last")
        alpha, zeta = self._schedule(progress.step - 1)
        row: dict[str, Any] = {
            "epoch": progress.epochs,
            "step": progress.step,
            "train_loss": train_loss,
            "train_error": 100 * train_errors,
            "error": deployed.error,
            "loss": deployed.loss,
            "relaxed_error": None if with_relaxed is None else with_relaxed.error,
            "relaxed_loss": None if with_relaxed is None else with_relaxed.loss,
            "alpha": alpha,
            "zeta": zeta,
            "degenerate_groups": sum(layer.degenerate_groups for layer in health(stepper.network)),
            "learning_rate": stepper.optimizer.param_groups[0]["lr"],
            "weight_decay": stepper.optimizer.param_groups[0]["weight_decay"],
            "images_per_second": speed,
            "seconds": self._seconds_before + self._elapsed(),
        }
        row = {name: value if _is_number(value) else None for name, value in row.items()}
        if self._folder is not None:
            self._folder.append("metrics.jsonl", [row])
        self._record_state()
        self._events.epoch(row, self._layers)
        stepper.totals.zero_()
        self._save()
        self._monitor.epoch(row, is_best, self._seconds_left())
        self._epoch_images, self._epoch_started = 0, time.monotonic()

    def _relaxed_score(self) -> Score | None:
        if self.stepper.binarization is None:
            return None
        with relaxed(self.stepper.network):
            return score(self.stepper.network, *self._test, self.stepper.world)

    def _batch_norm(self) -> AbstractContextManager[None]:
        count = self.stepper.recipe.reestimate_batch_norm
        if count == 0:
            return nullcontext()
        return reestimated_batch_norm(self.stepper.network, self.stepper.train_images[:count])

    def _write_weights(self, name: str) -> None:
        if self._folder is not None:
            weights = {f"network/{key}": value for key, value in self.stepper.network.state_dict().items()}
            progress = self.progress
            record = {"kind": "weights", "epoch": progress.epochs, "step": progress.step, "error": progress.last_error}
            checkpoints.write_tensors(self._folder.path / f"{name}.safetensors", weights, record)

    def _record_state(self) -> None:
        if self._folder is not None and self._layers:
            progress = self.progress
            states = [layer_state(name, layer, progress.epochs, progress.step) for name, layer in self._layers.items()]
            self._folder.append("state.jsonl", states)

    def _save(self) -> None:
        # A step can make weights that are not finite although its loss was: they must not replace good ones.
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.stepper.network.parameters()):
            images, _ = self.stepper.batch(self.progress.step - 1)
            raise self._diverged(math.nan, images)
        if self._folder is not None:
            self.progress.seconds = self._seconds_before + self._elapsed()
            checkpoints.write(self._folder.path, capture(self.stepper, self.progress))
        self._saved = time.monotonic()


def _is_number(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
