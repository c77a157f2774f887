"""How a run is carried out. Nothing here changes what is learned, beyond the rounding of floats."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError

ARITHMETIC = ("threads", "bfloat16", "compiled", "sync_batch_norm", "deterministic")
"""The options that change how floats are rounded. A resumed run keeps them unless they are given anew."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Device, precision, checkpoints and records of a run.

    ``None`` for ``threads``, ``bfloat16``, ``compiled``, ``sync_batch_norm`` or ``deterministic`` means: as the run was
    begun, if it is resumed; PyTorch's default number of threads and off, if it starts.

    Args:
        data: folder with the data set; ``None`` for the cache.
        resume: continue from the run folder's checkpoint, or start if there is none.
        device: a PyTorch device such as ``cpu`` or ``cuda:1``; ``auto`` for an accelerator if there is one.
        threads: CPU threads per process.
        bfloat16: mixed precision: matrix products in bfloat16, weights and statistics in float32.
        compiled: compile the forward and backward pass with ``torch.compile``.
        sync_batch_norm: batch-norm statistics over all processes; accelerators only.
        deterministic: refuse operations whose result varies from call to call on an accelerator.
        checkpoint_minutes: the longest time between two checkpoints; the end of an epoch always writes one.
        tensorboard: write TensorBoard events.
        watch: glob patterns of the layers whose state is recorded; empty for the middle layer.

    Example:
        >>> Options(threads=0)
        Traceback (most recent call last):
        signwise.errors.SignwiseError: threads must be at least 1, got 0
    """

    data: Path | None = None
    resume: bool = False
    device: str = "auto"
    threads: int | None = None
    bfloat16: bool | None = None
    compiled: bool | None = None
    sync_batch_norm: bool | None = None
    deterministic: bool | None = None
    checkpoint_minutes: float = 3.0
    tensorboard: bool = True
    watch: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise SignwiseError(f"threads must be at least 1, got {self.threads}")
        if self.checkpoint_minutes < 0:
            raise SignwiseError(f"checkpoint_minutes must be 0 or more, got {self.checkpoint_minutes}")

    def to_json(self) -> dict[str, Any]:
        """The options as ``config.json`` stores them: the data folder as text, without ``resume``."""
        record = dataclasses.asdict(self) | {"data": None if self.data is None else str(self.data)}
        del record["resume"]
        return record

    def as_begun(self, recorded: Mapping[str, Any]) -> tuple[Options, list[str]]:
        """These options with the recorded arithmetic wherever they leave it open.

        Args:
            recorded: an attempt at the run as ``config.json`` records it, with ``options`` and ``threads``.

        Returns:
            The options, and one sentence per setting that differs from the record.

        Example:
            >>> options, notes = Options(bfloat16=True).as_begun({"threads": 2, "options": {"bfloat16": False}})
            >>> options.threads, options.bfloat16, notes
            (2, True, ['bfloat16 was False and is True now: the run rounds differently from here on'])
        """
        begun: dict[str, Any] = {name: recorded.get("options", {}).get(name) or False for name in ARITHMETIC}
        begun["threads"] = recorded.get("threads")  # the number in use, also where the options named none
        given = {name: getattr(self, name) for name in ARITHMETIC if getattr(self, name) is not None}
        notes = [
            f"{name} was {begun[name]} and is {value} now: the run rounds differently from here on"
            for name, value in given.items()
            if begun[name] not in (None, value)
        ]
        return dataclasses.replace(self, **begun | given), notes
