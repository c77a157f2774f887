"""Binary layers and attach() under PyTorch's data-parallel wrappers, on two real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import signwise as sw

STEPS, SIZE = 4, 16


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3))
    sw.binarize_(model, skip=sw.last)
    sw.binarize_(model[3], skip=None, method=sw.BinaryConnect())  # with an after-step
    return model


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(SIZE, 6, generator=generator), torch.randint(0, 3, (SIZE,), generator=generator)


def train(model: nn.Module, share: slice) -> None:
    optimizer = sw.SGDW(sw.param_groups(model, 1e-3), lr=0.1)
    attachment = sw.attach(optimizer, model, sw.BinarizationSchedule(STEPS, t_alpha=0.5))
    for step in range(STEPS):
        assert attachment.step == step
        inputs, targets = batch(step)
        optimizer.zero_grad()
        # In two parts, because accumulating gradients gathers sharded weights twice per step.
        for part in (slice(0, None, 2), slice(1, None, 2)):
            loss = nn.functional.cross_entropy(model(inputs[share][part]), targets[share][part])
            (loss / 2).backward()
        optimizer.step()


def with_ddp(rank: int, model: nn.Module) -> dict[str, torch.Tensor]:
    train(DistributedDataParallel(model), slice(rank * SIZE // 2, (rank + 1) * SIZE // 2))
    return model.state_dict()


def with_fsdp(rank: int, model: nn.Sequential) -> dict[str, torch.Tensor]:
    mesh = init_device_mesh("cpu", (2,))
    for layer in (model[0], model[3]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, slice(rank * SIZE // 2, (rank + 1) * SIZE // 2))
    return {name: value.full_tensor() for name, value in model.state_dict().items()}


def worker(rank: int, port: int, wrapper: str, out: Path) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.save({"ddp": with_ddp, "fsdp": with_fsdp}[wrapper](rank, make_model()), out / f"{rank}.pt")
    dist.barrier()
    # Meshes keep their process group, whose threads may abort the process while Python ends, so Python does not:
    # https://github.com/pytorch/pytorch/pull/179291.
    os._exit(0)


@pytest.mark.slow
@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_two_processes_train_like_one(wrapper: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, str(port), wrapper, str(tmp_path)]
    workers = [subprocess.Popen([*command, str(rank)], stderr=subprocess.PIPE, text=True) for rank in range(2)]
    for process in workers:
        _, complaint = process.communicate(timeout=120)
        assert process.returncode == 0, complaint
        assert "changes the latent weights" not in complaint, "attach calls the after-step"
    alone = make_model()
    train(alone, slice(None))
    for rank in range(2):
        weights = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert weights.keys() == alone.state_dict().keys()
        for name, expected in alone.state_dict().items():
            torch.testing.assert_close(weights[name], expected, rtol=1e-5, atol=1e-6, msg=f"{name} on rank {rank}")


if __name__ == "__main__":
    worker(int(sys.argv[4]), int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
