"""The trainers on two processes under torchrun: data parallel, and sharded by FSDP2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.integrations import toy
from torch import nn

import signwise as sw

pytest.importorskip("lightning")
pytest.importorskip("transformers")

from lightning.pytorch.strategies import ModelParallelStrategy
from tests.integrations import test_huggingface as hugging_face
from tests.integrations import test_lightning as lightning
from torch.distributed.fsdp import fully_shard

from signwise.integrations.huggingface import BinarizationCallback
from signwise.integrations.lightning import Binarization

ROOT = Path(__file__).parents[2]
PROCESSES, EPOCHS, ACCUMULATED = 2, 4, 3


class Sharded(lightning.Classifier):
    """Lightning's way to FSDP2: the module shards itself."""

    def configure_model(self) -> None:
        mesh = self.device_mesh["data_parallel"]
        fully_shard(self.network[3], mesh=mesh)  # the binary layer
        fully_shard(self.network, mesh=mesh)


def whole(model: nn.Module) -> dict[str, torch.Tensor]:
    """The state dict with the shards put together."""
    values: dict[str, Any] = model.state_dict()
    return {name: value.full_tensor() if hasattr(value, "full_tensor") else value for name, value in values.items()}


def with_lightning(folder: Path, *, sharded: bool) -> tuple[nn.Module, list[float]]:
    model = Sharded() if sharded else lightning.Classifier()
    options: dict[str, Any] = {"accumulate_grad_batches": ACCUMULATED, "gradient_clip_val": None, "devices": PROCESSES}
    strategy = ModelParallelStrategy(data_parallel_size=PROCESSES, tensor_parallel_size=1) if sharded else "ddp"
    run = lightning.trainer(folder, Binarization(t_alpha=0.5), strategy=strategy, **options)
    run.fit(model, lightning.loader())
    return model.network, model.alphas


def with_hugging_face(folder: Path) -> tuple[nn.Module, list[float]]:
    model = hugging_face.Classifier()
    options: dict[str, Any] = {
        "gradient_accumulation_steps": ACCUMULATED,
        "bf16": True,
        "save_strategy": "no",
        "ddp_backend": "gloo",
    }
    callback = BinarizationCallback(t_alpha=0.5)
    hugging_face.trainer(folder, model, callback, **options).train()
    return model.network, model.alphas


TRAININGS = {
    "Lightning, DDP": lambda folder: with_lightning(folder, sharded=False),
    "Lightning, FSDP2": lambda folder: with_lightning(folder, sharded=True),
    "Hugging Face, DDP": with_hugging_face,
}


def train_on_two(training: str, folder: Path) -> list[dict[str, Any]]:
    """What each process ends with: its weights, and the α of each forward pass."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(PROCESSES)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [*launcher, __file__, training, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(PROCESSES)]


def assert_trained(outcomes: list[dict[str, Any]]) -> None:
    steps = EPOCHS * toy.IMAGES // (toy.BATCH * PROCESSES * ACCUMULATED)
    expected = [min(step / (0.5 * steps), 1.0) for step in range(steps) for _ in range(ACCUMULATED)]
    for outcome in outcomes:
        assert outcome["alphas"] == pytest.approx(expected), "one step of α per step of the optimizer"
    first, second = (outcome["weights"] for outcome in outcomes)
    for name, _ in toy.network().named_parameters():
        assert torch.equal(first[name], second[name]), f"{name} differs between the processes"
    assert not torch.equal(first["3.weight"], toy.network().state_dict()["3.weight"]), "the binary layer was trained"


@pytest.mark.slow
def test_lightning_trains_sharded_as_it_trains_data_parallel(tmp_path: Path) -> None:
    parallel = train_on_two("Lightning, DDP", tmp_path)
    assert_trained(parallel)
    sharded = train_on_two("Lightning, FSDP2", tmp_path)
    assert_trained(sharded)
    for name, expected in parallel[0]["weights"].items():
        torch.testing.assert_close(sharded[0]["weights"][name], expected, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.slow
def test_hugging_faces_trainer_trains_data_parallel_in_bfloat16(tmp_path: Path) -> None:
    assert_trained(train_on_two("Hugging Face, DDP", tmp_path))


def main() -> None:
    training, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    network, alphas = TRAININGS[training](folder)
    sw.refuse_nonfinite(network)
    torch.save({"weights": whole(network), "alphas": alphas}, folder / f"{os.environ['RANK']}.pt")
    torch.distributed.barrier()
    # Meshes keep their process group, whose threads may abort the process while Python ends, so Python does not:
    # https://github.com/pytorch/pytorch/pull/179291.
    os._exit(0)


if __name__ == "__main__":
    main()
