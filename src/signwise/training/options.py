"""How a recipe is carried out: nothing here changes what is learned, beyond the rounding of floats."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where the run's files go, what it runs on, and what it shows.

    Args:
        out: the run's folder; made if it does not exist.
        data: folder with the data set, or ``None`` for the cache.
        resume: go on from the checkpoint in ``out``, or start if there is none.
        device: ``auto`` takes an accelerator if there is one; or a PyTorch device such as ``cpu`` or ``cuda:1``.
        threads: CPU threads a process, or ``None`` for PyTorch's choice.
        bfloat16: mixed precision: matrix products in bfloat16, weights and statistics in float32.
        compiled: compile the training step's forward and backward with ``torch.compile``.
        sync_batch_norm: statistics over all processes; PyTorch's own, for accelerators only.
        deterministic: refuse operations whose result varies from call to call on an accelerator.
        checkpoint_minutes: the longest time between two checkpoints; there is one at the end of each epoch besides.
        tensorboard: write TensorBoard events.
        watch: glob patterns of the layers whose state is recorded; empty for the one in the middle.
    """

    out: Path
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
        """The options as they stand in ``config.json``: paths as text, without ``out`` and ``resume``."""
        record = dataclasses.asdict(self) | {"data": None if self.data is None else str(self.data)}
        return {name: value for name, value in record.items() if name not in ("out", "resume")}
