"""How a run is carried out. Nothing here changes what is learned, beyond the rounding of floats."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError


@dataclass(frozen=True, kw_only=True)
class Options:
    """Device, precision, checkpoints and records of a run.

    Args:
        data: folder with the data set; ``None`` for the cache.
        resume: continue from the run folder's checkpoint, or start if there is none.
        device: a PyTorch device such as ``cpu`` or ``cuda:1``; ``auto`` for an accelerator if there is one.
        threads: CPU threads per process; ``None`` for PyTorch's default.
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
    bfloat16: bool = False
    compiled: bool = False
    sync_batch_norm: bool = False
    deterministic: bool = False
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
