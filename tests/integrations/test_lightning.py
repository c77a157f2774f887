"""The Lightning callback, with Lightning itself."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.integrations import toy
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import signwise as sw

pytest.importorskip("lightning")

import lightning.pytorch as pl

from signwise.integrations.lightning import Binarization

# Lightning advises about workers, loggers and the machine.
pytestmark = [pytest.mark.filterwarnings("ignore:::lightning"), pytest.mark.filterwarnings("ignore:::torch")]

EPOCHS, ACCUMULATED = 4, 2
STEPS = EPOCHS * toy.IMAGES // toy.BATCH // ACCUMULATED


class Classifier(pl.LightningModule):
    def __init__(self, method: sw.Method | None = None, *, scheduled: bool = True, compiled: bool = False) -> None:
        super().__init__()
        self.network = toy.network(method)
        self.scheduled = scheduled
        self.alphas: list[float] = []
        self.forward_pass = torch.compile(self.network, backend="aot_eager") if compiled else self.network

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        self.alphas.append(toy.alpha(self.network))
        return F.cross_entropy(self.forward_pass(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        self.network(batch[0])

    def configure_optimizers(self) -> Any:
        optimizer = sw.SGDW(sw.param_groups(self.network, weight_decay=0.05), lr=0.05)
        if not self.scheduled:
            return optimizer
        scheduler = CosineAnnealingLR(optimizer, STEPS)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class DiesAt(pl.Callback):
    """Kills its process after an epoch and a part of the next."""

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        if trainer.global_step == STEPS // 2 + 1:
            toy.die()


def loader() -> Any:
    return DataLoader(TensorDataset(*toy.images()), batch_size=toy.BATCH)


def trainer(folder: Path, *callbacks: Any, **options: Any) -> Any:
    settings: dict[str, Any] = {
        "max_epochs": EPOCHS,
        "accumulate_grad_batches": ACCUMULATED,
        "gradient_clip_val": 1.0,
        "accelerator": "cpu",
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": any(isinstance(one, pl.callbacks.ModelCheckpoint) for one in callbacks),
    }
    return pl.Trainer(default_root_dir=folder, callbacks=list(callbacks), **settings | options)


def saves(folder: Path) -> Any:
    return pl.callbacks.ModelCheckpoint(folder, filename="saved", enable_version_counter=False)


def train_and_die(folder: Path) -> None:
    trainer(folder, Binarization(t_alpha=0.5), saves(folder), DiesAt()).fit(Classifier(), loader())


def by_hand(model: Classifier) -> None:
    """The same training in a plain loop."""
    model.train()
    optimizer = sw.SGDW(sw.param_groups(model.network, weight_decay=0.05), lr=0.05)
    scheduler = CosineAnnealingLR(optimizer, STEPS)
    sw.attach(optimizer, model, sw.BinarizationSchedule(STEPS, t_alpha=0.5), scale_weight_decay=True)
    for _ in range(EPOCHS):
        for number, batch in enumerate(loader(), start=1):
            (model.training_step(batch, 0) / ACCUMULATED).backward()
            if number % ACCUMULATED == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()


@pytest.mark.parametrize("method", [sw.GroupTransform(), sw.LAB()], ids=lambda method: type(method).__name__)
def test_lightning_trains_as_the_loop_written_by_hand_bit_for_bit(method: sw.Method, tmp_path: Path) -> None:
    ours, plain = Classifier(method), Classifier(method)
    trainer(tmp_path, Binarization(t_alpha=0.5)).fit(ours, loader())
    by_hand(plain)
    toy.assert_same_weights(ours, plain)
    assert ours.alphas == plain.alphas


def test_the_number_of_steps_comes_from_the_trainer(tmp_path: Path) -> None:
    model = Classifier()
    trainer(tmp_path, Binarization(t_alpha=0.5)).fit(model, loader())
    expected = [step / (0.5 * STEPS) for step in range(STEPS // 2 + 1)]
    seen = sorted(set(model.alphas))
    assert seen == pytest.approx(expected) and model.alphas.count(0.0) == ACCUMULATED


def test_a_killed_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole = Classifier()
    trainer(tmp_path, Binarization(t_alpha=0.5)).fit(whole, loader())
    assert toy.in_a_process(train_and_die, tmp_path) == -signal.SIGKILL
    resumed = Classifier()
    callback = Binarization(t_alpha=0.5)
    trainer(tmp_path, callback).fit(resumed, loader(), ckpt_path=tmp_path / "saved.ckpt", weights_only=True)
    assert resumed.alphas == whole.alphas[-len(resumed.alphas) :] and 0 < len(resumed.alphas) < len(whole.alphas)
    toy.assert_same_weights(resumed, whole)


def test_a_decay_of_ours_replaces_the_scheduler_and_two_are_refused(tmp_path: Path) -> None:
    plain = Classifier(scheduled=False)
    run = trainer(tmp_path, Binarization(decay=sw.CosineDecay))
    run.fit(plain, loader())
    (optimizer,) = run.optimizers
    factor = sw.CosineDecay(total_steps=STEPS).learning_rate_factor(STEPS)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05 * factor)
    with pytest.raises(sw.SignwiseError, match="leave one out"):
        trainer(tmp_path, Binarization(decay=sw.CosineDecay)).fit(Classifier(), loader())


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(TensorDataset(*toy.images()))


@pytest.mark.parametrize(
    ("options", "data"),
    [({"max_epochs": -1}, loader()), ({"max_epochs": 2}, DataLoader(Endless(), batch_size=toy.BATCH))],
    ids=["endless", "without a length"],
)
def test_an_unknown_number_of_steps_is_refused(options: dict[str, Any], data: Any, tmp_path: Path) -> None:
    with pytest.raises(sw.SignwiseError, match="give the Trainer max_steps"):
        trainer(tmp_path, Binarization(), **options).fit(Classifier(scheduled=False), data)


def test_bfloat16_compile_and_moving_averages_work_together(tmp_path: Path) -> None:
    averaging = pl.callbacks.EMAWeightAveraging(decay=0.5)
    model = Classifier(compiled=True)
    trainer(tmp_path, Binarization(t_alpha=0.5), averaging, precision="bf16-mixed").fit(model, loader(), loader())
    assert toy.alpha(model.network) == 1
    assert len(set(model.alphas)) == STEPS // 2 + 1
    sw.refuse_nonfinite(model)


def test_a_second_training_starts_from_alpha_zero(tmp_path: Path) -> None:
    model, callback = Classifier(), Binarization(t_alpha=0.5)
    trainer(tmp_path, callback).fit(model, loader())
    model.alphas.clear()
    trainer(tmp_path, callback).fit(model, loader())
    assert model.alphas[0] == 0 and callback.step is None


def _two_processes(folder: Path) -> None:
    model = Classifier()
    run = trainer(folder, Binarization(t_alpha=0.5), strategy="ddp_fork", devices=2, accumulate_grad_batches=1)
    run.fit(model, loader())
    assert toy.alpha(run.lightning_module.network) == 1 or run.global_rank != 0


def test_two_processes_take_the_steps_of_their_shard(tmp_path: Path) -> None:
    assert toy.in_a_process(_two_processes, tmp_path) == 0
