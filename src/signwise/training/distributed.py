"""The processes that train together, on PyTorch's own distributed package; a single process is the simplest case.

``torchrun`` starts the processes and gives each a rank. All hold the same weights, each takes a shard of every batch,
and gradients are averaged. Only rank 0 writes files and reports.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

# DDP imports this module, whose functions take the process group of that moment as a default argument and keep it
# alive for ever. Imported before a group exists, they keep none, and the group's threads end with the group. Threads
# that are left over may abort the process when it ends, https://github.com/pytorch/pytorch/pull/179291.
import torch.distributed.nn.functional
from torch import Tensor, nn
from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # public, but missing in its list of names
from torch.distributed.rendezvous import rendezvous

from signwise.errors import SignwiseError


@dataclass(frozen=True, kw_only=True)
class World:
    """This process and the processes that train with it.

    Args:
        rank: number of this process; 0 writes files and reports.
        size: number of processes.
        device: the device of this process.
        restarts: how often ``torchrun`` has restarted the processes.
        job: ``torchrun``'s name for the job, the same after a restart.
    """

    rank: int
    size: int
    device: torch.device
    restarts: int = 0
    job: str | None = None

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def all_reduce_(self, tensor: Tensor) -> Tensor:
        """Replace the tensor by its sum over all processes, and return it."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def broadcast_(self, tensors: list[Tensor]) -> None:
        """Replace the tensors by rank 0's."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def broadcast_text(self, text: str) -> str:
        """The text of rank 0, on every process."""
        if self.size == 1:
            return text
        content = text.encode()
        length = torch.tensor(len(content), device=self.device)
        dist.broadcast(length, 0)
        buffer = torch.empty(int(length), dtype=torch.uint8, device=self.device)
        if self.is_main:
            buffer.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        dist.broadcast(buffer, 0)
        return bytes(buffer.tolist()).decode()

    def barrier(self) -> None:
        """Wait until every process has called this."""
        if self.size > 1:
            dist.barrier()

    def shard(self, batch: Tensor) -> Tensor:
        """This process's part of a batch that every process knows."""
        if self.size == 1:
            return batch
        part = len(batch) // self.size
        return batch[self.rank * part : (self.rank + 1) * part]

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model under DDP, which averages gradients over the processes."""
        if self.size == 1:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        engine = nn.parallel.DistributedDataParallel
        # Buffers are batch-norm statistics, which training does not read: they are broadcast once per epoch, before
        # evaluation. Newer versions of PyTorch have another name for the switch.
        newer = "forward_sync_buffers"
        options: dict[str, Any] = {
            newer if newer in inspect.signature(engine).parameters else "broadcast_buffers": False
        }
        return engine(model, device_ids=devices, gradient_as_bucket_view=True, **options)


def pick_device(name: str, local_rank: int = 0) -> torch.device:
    """The device with this name; ``auto`` is this process's accelerator if there is one, else the CPU.

    Example:
        >>> pick_device("cpu")
        device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", local_rank)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first_line = str(error).splitlines()[0]
        # PyTorch lists all kinds of devices that it was ever built for.
        reason = "there is no such kind of device" if first_line.startswith("Expected one of") else first_line
        raise SignwiseError(f"device {name!r} is not available: {reason}; auto takes what this machine has") from None
    return device


@contextlib.contextmanager
def join_world(device_name: str) -> Iterator[World]:
    """Join the process group of ``torchrun``, if there is one, and leave it at the end of the block."""
    environment = os.environ
    size = int(environment.get("WORLD_SIZE", "1"))
    device = pick_device(device_name, int(environment.get("LOCAL_RANK", "0")))
    if size == 1:
        yield World(rank=0, size=1, device=device)
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    restarts = int(environment.get("TORCHELASTIC_RESTART_COUNT", "0"))
    # torchrun may keep its key-value store through a restart; with a prefix per attempt, no process waits for
    # processes of the attempt before.
    store, rank, size = next(rendezvous("env://"))
    attempt = PrefixStore(f"attempt {restarts}", store)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", store=attempt, rank=rank, world_size=size)
    try:
        job = environment.get("TORCHELASTIC_RUN_ID")
        yield World(rank=rank, size=size, device=device, restarts=restarts, job=job)
    finally:
        dist.destroy_process_group()
