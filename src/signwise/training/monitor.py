"""What a run shows: a live line in a terminal, plain lines elsewhere, nothing from the other processes."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Protocol

from signwise.training.recipe import Recipe

_REFRESH_SECONDS = 0.5
_PLAIN_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Where training stands, in the middle of an epoch.

    Args:
        epoch: the epoch, from 1.
        step: steps done in all.
        total_steps: steps of the whole run.
        loss: mean loss of the epoch so far.
        alpha: α of the last step, or ``None`` where nothing is binarized.
        zeta: ζ of the last step, or ``None``.
        images_per_second: speed of this process group.
        seconds_left: estimated time until the end.
    """

    epoch: int
    step: int
    total_steps: int
    loss: float
    alpha: float | None
    zeta: float | None
    images_per_second: float
    seconds_left: float


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, as far as they matter.

    Example:
        >>> duration(59), duration(61), duration(3 * 3600 + 5 * 60)
        ('59 s', '1 min 1 s', '3 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def errors_line(row: dict[str, Any]) -> str:
    """The errors of a row of ``metrics.jsonl``, in words."""
    line = f"error {row['error']:.2f} %"
    return line if row["relaxed_error"] is None else line + f" (relaxed {row['relaxed_error']:.2f} %)"


def _schedule_line(alpha: float | None, zeta: float | None) -> str:
    return "" if alpha is None or zeta is None else f"  α {alpha:.3f}  ζ {zeta:.2f}"


class Monitor(Protocol):
    """Receives what happens; decides what is seen."""

    def say(self, text: str) -> None:
        """A sentence for the user."""

    def due(self) -> bool:
        """Whether a reading would be shown now; taking one makes an accelerator wait."""

    def show(self, reading: Reading) -> None:
        """Where training stands."""

    def epoch(self, row: dict[str, Any], is_best: bool, seconds_left: float) -> None:
        """An epoch has been evaluated."""

    def close(self) -> None:
        """The run has ended."""


class Silent:
    """For the processes that are not rank 0."""

    def say(self, text: str) -> None:
        return None

    def due(self) -> bool:
        return False

    def show(self, reading: Reading) -> None:
        return None

    def epoch(self, row: dict[str, Any], is_best: bool, seconds_left: float) -> None:
        return None

    def close(self) -> None:
        return None


class Plain:
    """Lines for a file or a pipe: one an epoch, and one a minute in long epochs."""

    def __init__(self, recipe: Recipe) -> None:
        self._epochs = recipe.epochs
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def due(self) -> bool:
        return time.monotonic() - self._last >= _PLAIN_SECONDS

    def show(self, reading: Reading) -> None:
        self._last = time.monotonic()
        self.say(
            f"epoch {reading.epoch}/{self._epochs}  step {reading.step}/{reading.total_steps}  loss {reading.loss:.4f}"
            f"{_schedule_line(reading.alpha, reading.zeta)}  {reading.images_per_second:,.0f} images/s  "
            f"{duration(reading.seconds_left)} left"
        )

    def epoch(self, row: dict[str, Any], is_best: bool, seconds_left: float) -> None:
        self._last = time.monotonic()
        self.say(
            f"epoch {row['epoch']}/{self._epochs}  loss {row['train_loss']:.4f}  {errors_line(row)}"
            f"{' best' if is_best else ''}{_schedule_line(row['alpha'], row['zeta'])}  "
            f"{row['images_per_second']:,.0f} images/s  {duration(seconds_left)} left"
        )

    def close(self) -> None:
        return None


class Live(Plain):
    """A progress bar that is drawn anew in place, above it a line for each epoch."""

    def __init__(self, recipe: Recipe) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__(recipe)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[reading]}"))
        self._progress = Progress(*columns, auto_refresh=False)
        self._task = self._progress.add_task("", total=None, reading="")
        self._errors = ""
        self._progress.start()

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def due(self) -> bool:
        return time.monotonic() - self._last >= _REFRESH_SECONDS

    def show(self, reading: Reading) -> None:
        self._last = time.monotonic()
        text = (
            f"loss {reading.loss:.4f}{self._errors}{_schedule_line(reading.alpha, reading.zeta)}  "
            f"{reading.images_per_second:,.0f} images/s  {duration(reading.seconds_left)} left"
        )
        description = f"epoch {reading.epoch}/{self._epochs}"
        self._progress.update(
            self._task, total=reading.total_steps, completed=reading.step, description=description, reading=text
        )
        self._progress.refresh()

    def epoch(self, row: dict[str, Any], is_best: bool, seconds_left: float) -> None:
        self._errors = "  " + errors_line(row)
        super().epoch(row, is_best, seconds_left)

    def close(self) -> None:
        self._progress.stop()


def monitor_for(recipe: Recipe, is_main: bool) -> Monitor:
    """The monitor that suits this process and its output."""
    if not is_main:
        return Silent()
    if sys.stdout.isatty():
        try:
            return Live(recipe)
        except ImportError:  # rich belongs to the extra "train"; its absence costs the bar alone
            pass
    return Plain(recipe)
