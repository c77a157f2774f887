"""Where the events of a run go: terminal, plain lines, JSONL records, layer state, TensorBoard, a parent process.

Each destination is one :class:`~signwise.training.loop.Reporter`.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import math
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from signwise.errors import SignwiseError
from signwise.layers import BinaryLayer, binary_layers
from signwise.text import counted, duration
from signwise.training.loop import EpochRecord, Event, Reading, Reporter, Started
from signwise.training.run_folder import RunFolder
from signwise.transform import binary_sign

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = [
    "LEGEND",
    "JsonLinesReporter",
    "LayerStateReporter",
    "MetricsReporter",
    "PlainReporter",
    "Reporter",
    "TensorBoardReporter",
    "TerminalReporter",
    "errors_line",
    "terminal_or_plain",
    "watched_layers",
]

_BINS = 64
_FEW_FLIPS = 1e-4  # signs that flip in an epoch; early in a healthy training it is a few percent


LEGEND = "error: test error of the ±1 weights; relaxed: of the weights as they train. They meet when α reaches 1."
"""What the errors in the lines of a binary network are, in one line."""


def errors_line(record: EpochRecord) -> str:
    """The errors of an epoch, in words."""
    line = f"error {record.error:.2f} %"
    return line if record.relaxed_error is None else line + f" (relaxed {record.relaxed_error:.2f} %)"


def _schedule_line(alpha: float | None, zeta: float | None) -> str:
    return "" if alpha is None or zeta is None else f"  α {alpha:.3f}  ζ {zeta:.2f}"


class PlainReporter(Reporter):
    """Lines for a file or a pipe: one per epoch, and one per minute in long epochs."""

    reading_seconds = 60.0

    def __init__(self) -> None:
        self._started: Started | None = None
        self._best: float | None = None
        self._warned = False

    def report(self, event: Event) -> None:
        if isinstance(event, Started):
            self._started, self._best = event, event.best_error
            self._start(event)
        elif isinstance(event, Reading):
            self._reading(event)
        elif isinstance(event, EpochRecord):
            self._epoch(event)

    def line(self, text: str) -> None:
        """Write one line."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def _start(self, event: Started) -> None:
        for note in event.notes:
            self.line(note)
        if event.step:
            self.line(f"resuming {event.folder} after step {event.step:,} of {event.total_steps:,}")
        else:
            where = "" if event.folder is None else f" into {event.folder}"
            self.line(f"{event.recipe.name}, {event.recipe.bits} bit: {counted(event.total_steps, 'step')}{where}")
        if event.recipe.bits == 1 and event.step < event.total_steps:
            self.line(LEGEND)

    def _reading(self, reading: Reading) -> None:
        self.line(
            f"epoch {reading.epoch}/{self._epochs}  step {reading.step}/{reading.total_steps}  loss {reading.loss:.4f}"
            f"{_schedule_line(reading.alpha, reading.zeta)}  {reading.images_per_second:,.0f} images/s  "
            f"{duration(reading.seconds_left)} left"
        )

    def _epoch(self, record: EpochRecord) -> None:
        is_best = self._best is None or record.error < self._best
        self._best = record.error if is_best else self._best
        self.line(
            f"epoch {record.epoch}/{self._epochs}  loss {record.train_loss:.4f}  {errors_line(record)}"
            f"{' best' if is_best else ''}{_schedule_line(record.alpha, record.zeta)}  "
            f"{record.images_per_second:,.0f} images/s  {duration(self._seconds_left(record))} left"
        )

        if not self._warned and self._barely_moves(record):
            self._warned = True
            self.line(
                f"warning: only {100 * (record.flipped_signs or 0):.4f} % of the signs flipped in this epoch, so the "
                "network learns little; docs/when-accuracy-drops.md says what to do"
            )

    def _barely_moves(self, record: EpochRecord) -> bool:
        """Whether the signs rest although less than half of the run is over; later that is as it should be."""
        is_early = self._started is not None and 2 * record.step < self._started.total_steps
        return is_early and record.flipped_signs is not None and record.flipped_signs < _FEW_FLIPS

    @property
    def _epochs(self) -> int | str:
        return "?" if self._started is None else self._started.recipe.epochs

    def _seconds_left(self, record: EpochRecord) -> float:
        start = self._started
        if start is None:
            return 0.0
        return (record.seconds - start.seconds) * (start.total_steps - record.step) / (record.step - start.step)


class TerminalReporter(PlainReporter):
    """A progress bar that updates in place, and a line per epoch above it."""

    reading_seconds = 0.5

    def __init__(self) -> None:
        super().__init__()
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[reading]}"))
        # Transient: when the run ends, the bar goes, and the lines above it stay.
        self.bar: Progress = Progress(*columns, auto_refresh=False, transient=True)
        self._task: TaskID = self.bar.add_task("", total=None, reading="")
        self._errors = ""

    def line(self, text: str) -> None:
        self.bar.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _start(self, event: Started) -> None:
        self.bar.start()
        super()._start(event)

    def _reading(self, reading: Reading) -> None:
        text = (
            f"loss {reading.loss:.4f}{self._errors}{_schedule_line(reading.alpha, reading.zeta)}  "
            f"{reading.images_per_second:,.0f} images/s  {duration(reading.seconds_left)} left"
        )
        description = f"epoch {reading.epoch}/{self._epochs}"
        self.bar.update(
            self._task, total=reading.total_steps, completed=reading.step, description=description, reading=text
        )
        self.bar.refresh()

    def _epoch(self, record: EpochRecord) -> None:
        self._errors = "  " + errors_line(record)
        super()._epoch(record)

    def close(self) -> None:
        self.bar.stop()


def terminal_or_plain() -> Reporter:
    """A progress bar if standard output is a terminal and rich is installed, otherwise plain lines."""
    if sys.stdout.isatty():
        try:
            return TerminalReporter()
        except ImportError:  # rich belongs to the extra "train"; without it there is no bar
            pass
    return PlainReporter()


class JsonLinesReporter(Reporter):
    """One JSON object per event on standard output, for a parent process: ``{"epoch": {...}}`` and the like."""

    reading_seconds = 0.5

    def report(self, event: Event) -> None:
        if isinstance(event, Started):
            folder = None if event.folder is None else str(event.folder)
            fields = {"name": event.recipe.name, "folder": folder, "step": event.step, "total_steps": event.total_steps}
            self._write("started", fields | {"seconds": event.seconds, "notes": list(event.notes)})
        elif isinstance(event, Reading):
            self._write("reading", dataclasses.asdict(event))
        elif isinstance(event, EpochRecord):
            self._write("epoch", event.to_json())
        else:
            self._write("saved", dataclasses.asdict(event))

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({kind: fields}) + "\n")
        sys.stdout.flush()


class MetricsReporter(Reporter):
    """Appends each epoch to ``metrics.jsonl``."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def report(self, event: Event) -> None:
        if isinstance(event, EpochRecord):
            self._folder.append("metrics.jsonl", [event.to_json()])


def watched_layers(model: nn.Module, patterns: tuple[str, ...]) -> dict[str, BinaryLayer]:
    """The binary layers whose names match; without patterns, the middle one.

    Raises:
        SignwiseError: a pattern matches no binary layer.
    """
    layers = dict(binary_layers(model))
    if not patterns:
        names = list(layers)[len(layers) // 2 :][:1]
        return {name: layers[name] for name in names}
    chosen: dict[str, BinaryLayer] = {}
    for pattern in patterns:
        names = fnmatch.filter(layers, pattern)
        if not names:
            known = ", ".join(layers) or "none"
            raise SignwiseError(f"`watch` pattern {pattern!r} matches no binary layer; there are {known}")
        chosen |= {name: layers[name] for name in names}
    return chosen


class LayerStateReporter(Reporter):
    """Appends the state of the watched layers to ``state.jsonl``: before the first step, and after each epoch.

    The state is what the paper's figure of a layer shows: histograms of the latent weights φ and of the relaxed weights
    w_α, the count of each sign, minimum, mean and maximum of w_α, and α and ζ.
    """

    def __init__(self, folder: RunFolder, layers: dict[str, BinaryLayer]) -> None:
        self._folder, self._layers = folder, layers

    def report(self, event: Event) -> None:
        if isinstance(event, EpochRecord):
            self._append(event.epoch, event.step)
        elif isinstance(event, Started) and event.step == 0:
            self._append(0, 0)

    def _append(self, epoch: int, step: int) -> None:
        if self._layers:
            states = [_layer_state(name, layer, epoch, step) for name, layer in self._layers.items()]
            self._folder.append("state.jsonl", states)


@torch.no_grad()
def _layer_state(name: str, layer: BinaryLayer, epoch: int, step: int) -> dict[str, Any]:
    latent, relaxed = layer.weight.detach(), layer.relaxed_weight()
    positive = int((latent > 0).sum())
    spread = {"min": float(relaxed.min()), "mean": float(relaxed.mean()), "max": float(relaxed.max())}
    return {
        "epoch": epoch,
        "step": step,
        "layer": name,
        "alpha": float(layer.alpha),
        "zeta": float(layer.zeta),
        "latent": _histogram(latent),
        "relaxed": _histogram(relaxed) | spread,
        "signs": {"negative": latent.numel() - positive, "positive": positive},
    }


def _histogram(values: Tensor) -> dict[str, Any]:
    low, high = float(values.min()), float(values.max())
    counts = torch.histc(values.float(), _BINS, low, high)
    return {"low": low, "high": high, "counts": [int(count) for count in counts.tolist()]}


SCALARS = {
    "train_loss": "train/loss",
    "train_error": "train/error",
    "error": "test/error",
    "loss": "test/loss",
    "relaxed_error": "test/relaxed_error",
    "relaxed_loss": "test/relaxed_loss",
    "alpha": "schedule/alpha",
    "zeta": "schedule/zeta",
    "learning_rate": "schedule/learning_rate",
    "weight_decay": "schedule/weight_decay",
    "degenerate_groups": "weights/degenerate_groups",
    "flipped_signs": "weights/flipped_signs",
    "relative_step": "weights/relative_step",
    "images_per_second": "speed/images_per_second",
    "seconds": "speed/seconds",
}
"""The numbers of an :class:`~signwise.training.loop.EpochRecord` by the grouped names that loggers show."""


def scalars_of(event: Reading | EpochRecord) -> dict[str, float]:
    """The numbers of an event by their grouped names.

    A reading in the middle of an epoch has the mean training loss of the epoch so far, α, ζ and the speed.
    """
    if isinstance(event, EpochRecord):
        return {
            SCALARS[name]: value for name, value in event.to_json().items() if name in SCALARS and value is not None
        }
    found = {
        "train/loss": event.loss,
        "schedule/alpha": event.alpha,
        "schedule/zeta": event.zeta,
        "speed/images_per_second": event.images_per_second,
    }
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}


class TensorBoardReporter(Reporter):
    """TensorBoard events: numbers every few seconds and per epoch, histograms of φ, w_α and sign(φ), and the recipe.

    Without TensorBoard installed it writes nothing.
    """

    reading_seconds = 5.0

    def __init__(self, folder: Path, layers: dict[str, BinaryLayer]) -> None:
        self._folder, self._layers = folder, layers
        self._writer: Any = None

    def report(self, event: Event) -> None:
        if isinstance(event, Started) and event.step < event.total_steps:
            self._open(event)
        elif isinstance(event, Reading) and self._writer is not None:
            self._scalars(event)
        elif isinstance(event, EpochRecord) and self._writer is not None:
            self._epoch(event)

    def _open(self, event: Started) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # TensorBoard's own imports warn about each other
                from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        # TensorBoard drops events after this step: an interrupted attempt wrote them, but no checkpoint counts them.
        self._writer = SummaryWriter(str(self._folder), purge_step=event.step + 1)
        if event.step == 0:
            settings = json.dumps(event.recipe.to_json(), indent=2)
            self._writer.add_text("recipe", f"```json\n{settings}\n```", 0)

    def _scalars(self, event: Reading | EpochRecord) -> None:
        for name, value in scalars_of(event).items():
            self._writer.add_scalar(name, value, event.step)

    @torch.no_grad()
    def _epoch(self, record: EpochRecord) -> None:
        self._scalars(record)
        for name, layer in self._layers.items():
            self._writer.add_histogram(f"{name}/latent", layer.weight, record.step)
            self._writer.add_histogram(f"{name}/relaxed", layer.relaxed_weight(), record.step)
            self._writer.add_histogram(f"{name}/sign", binary_sign(layer.weight), record.step)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
