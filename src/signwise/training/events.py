"""TensorBoard events: the curves of each epoch, and histograms of φ, w_α and sign(φ) of the watched layers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch

from signwise.layers import BinaryLayer
from signwise.transform import binary_sign


class Events:
    """Writes a run's events; without TensorBoard installed, or with ``enabled`` off, it writes nothing.

    Args:
        folder: the run's folder.
        step: the step at which the run starts or goes on; later events of an earlier attempt are void.
        enabled: whether to write at all.
    """

    def __init__(self, folder: Path, step: int, enabled: bool) -> None:
        self._writer: Any = None
        if enabled:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # TensorBoard's own imports warn about each other
                    from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                return
            # TensorBoard forgets the events of that step and of later ones: they were not yet part of a checkpoint.
            self._writer = SummaryWriter(str(folder), purge_step=step + 1)

    def epoch(self, row: dict[str, Any], layers: dict[str, BinaryLayer]) -> None:
        """Record an epoch: every number of its row of ``metrics.jsonl``, and the watched layers."""
        if self._writer is None:
            return
        step = row["step"]
        for name, value in row.items():
            if isinstance(value, float):
                self._writer.add_scalar(name, value, step)
        for name, layer in layers.items():
            with torch.no_grad():
                self._writer.add_histogram(f"{name}/latent", layer.weight, step)
                self._writer.add_histogram(f"{name}/relaxed", layer.relaxed_weight(), step)
                self._writer.add_histogram(f"{name}/sign", binary_sign(layer.weight), step)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
