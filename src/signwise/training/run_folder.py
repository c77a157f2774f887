"""The folder of a run: one process at a time, and records that tell each epoch once.

config.json                     recipe, options, versions, hardware, revision, dates
metrics.jsonl                   one JSON object an epoch
state.jsonl                     one JSON object an epoch and watched layer: histograms of φ, w_α and sign(φ)
checkpoint.safetensors          all that is needed to go on, and checkpoint.previous.safetensors
best.safetensors                the weights of the epoch with the lowest error
last.safetensors                the weights after the last step
events.out.tfevents.*           for TensorBoard
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from signwise.atomic import atomic_write
from signwise.errors import FormatError, SignwiseError
from signwise.training import checkpoint

try:
    import fcntl
except ImportError:  # Windows has no flock; there a second process in the same folder goes unnoticed
    fcntl = None  # type: ignore[assignment]


def read_config(folder: Path) -> dict[str, Any]:
    """The ``config.json`` of a run.

    Raises:
        SignwiseError: the folder holds no run, or the file is not JSON.
    """
    path = folder / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SignwiseError(f"{folder} holds no run: it has no config.json") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot read {path}: {error}") from error
    return config


def recorded_data(config: Mapping[str, Any]) -> Path | None:
    """The folder with the data set that a run was trained on, if it was given one and it is still there."""
    folder = config.get("options", {}).get("data")
    return Path(folder) if folder is not None and Path(folder).is_dir() else None


def read_records(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a ``.jsonl`` file; a last line that a crash cut short is left out."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise FormatError(f"{path} has a line that is not JSON: {error}") from error


class RunFolder:
    """A run's folder, held by this process until :meth:`close`.

    Args:
        path: the folder; made if it does not exist.
        resume: whether a run that is already there is to be continued.

    Raises:
        SignwiseError: another process trains here, there is a run and ``resume`` is not set, or the folder cannot be
            written.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock: IO[bytes] = (path / ".lock").open("ab")  # held until close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise SignwiseError(f"cannot write to {path}: {reason}; choose another folder with --out") from error
        try:
            self._claim(resume)
        except BaseException:
            self._lock.close()
            raise

    def _claim(self, resume: bool) -> None:
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SignwiseError(
                    f"another process is training in {self.path}: wait or choose another --out"
                ) from None
        names = ("config.json", checkpoint.CURRENT, checkpoint.PREVIOUS)
        if not resume and any((self.path / name).exists() for name in names):
            raise SignwiseError(f"{self.path} already holds a run: continue it with --resume, or choose another --out")
        # A process that was killed in the middle of writing could not take its unfinished file away.
        for unfinished in self.path.glob(".*.part"):
            unfinished.unlink(missing_ok=True)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write ``config.json``, whole or not at all."""
        try:
            with atomic_write(self.path / "config.json") as file:
                file.write((json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode())
        except OSError as error:
            raise SignwiseError(f"cannot write {self.path / 'config.json'}: {error.strerror or error}") from error

    def append(self, name: str, records: list[dict[str, Any]]) -> None:
        """Add lines to a ``.jsonl`` file; they are on the disk when this returns."""
        text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records)
        try:
            with (self.path / name).open("ab") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            reason = error.strerror or str(error)
            raise SignwiseError(f"cannot write {self.path / name}: {reason}; the checkpoint is intact") from error

    def keep_epochs(self, name: str, epochs: int) -> None:
        """Drop the lines of a ``.jsonl`` file that tell of epochs after ``epochs``: they will be written again."""
        path = self.path / name
        if path.exists():
            kept = [record for record in read_records(path) if record["epoch"] <= epochs]
            with atomic_write(path) as file:
                file.write("".join(json.dumps(record) + "\n" for record in kept).encode())

    def close(self) -> None:
        """Let the next process in."""
        self._lock.close()
