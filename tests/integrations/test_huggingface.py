"""The callback for Hugging Face's Trainer, with transformers itself."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.integrations import toy
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import Dataset

import signwise as sw

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import transformers

from signwise.integrations.huggingface import BinarizationCallback

pytestmark = pytest.mark.filterwarnings("ignore:::(torch|transformers|accelerate)")

EPOCHS, ACCUMULATED = 4, 2
STEPS = EPOCHS * toy.IMAGES // toy.BATCH // ACCUMULATED


class Rows(Dataset[dict[str, Tensor]]):
    def __init__(self) -> None:
        self.images, self.labels = toy.images()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"inputs": self.images[index], "labels": self.labels[index]}


class Classifier(nn.Module):
    def __init__(self, method: sw.Method | None = None) -> None:
        super().__init__()
        self.network = toy.network(method)
        self.alphas: list[float] = []

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        if not torch.compiler.is_compiling():
            self.alphas.append(toy.alpha(self.network))
        outputs = self.network(inputs)
        return {"loss": F.cross_entropy(outputs, labels), "logits": outputs}


class DiesAt(transformers.TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == STEPS // 2 + 1:
            toy.die()


def trainer(folder: Path, model: nn.Module, *callbacks: Any, sgdw: bool = True, **options: Any) -> Any:
    settings: dict[str, Any] = {
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": toy.BATCH,
        "gradient_accumulation_steps": ACCUMULATED,
        "max_grad_norm": 1.0,
        "lr_scheduler_type": "cosine",
        "learning_rate": 0.05,
        "save_strategy": "steps",
        "save_steps": 5,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    arguments = transformers.TrainingArguments(str(folder), **settings | options)
    optimizer = sw.SGDW(sw.param_groups(model, weight_decay=0.05), lr=0.05) if sgdw else None
    return transformers.Trainer(
        model, arguments, train_dataset=Rows(), callbacks=list(callbacks), optimizers=(optimizer, None)
    )


def train_and_die(folder: Path) -> None:
    trainer(folder, Classifier(), BinarizationCallback(t_alpha=0.5), DiesAt()).train()


def test_the_number_of_steps_comes_from_the_trainer(tmp_path: Path) -> None:
    model, callback = Classifier(), BinarizationCallback(t_alpha=0.5)
    run = trainer(tmp_path, model, callback)
    run.train()
    expected = [step / (0.5 * STEPS) for step in range(STEPS // 2 + 1)]
    assert sorted(set(model.alphas)) == pytest.approx(expected) and model.alphas.count(0.0) == ACCUMULATED
    assert toy.alpha(model.network) == 1 and callback.step is None


def test_the_weight_decay_of_sgdw_follows_the_trainers_learning_rate(tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []

    class Watches(transformers.TrainerCallback):
        def on_optimizer_step(self, args: Any, state: Any, control: Any, *, optimizer: Any, **kwargs: Any) -> None:
            group = optimizer.param_groups[0]
            seen.append((group["lr"] / 0.05, group["weight_decay"] / 0.05))

    trainer(tmp_path, Classifier(), BinarizationCallback(t_alpha=0.5), Watches()).train()
    assert len(seen) == STEPS and seen[0] == (1, 1) and seen[-1][0] < 0.1
    assert all(decay == pytest.approx(rate) for rate, decay in seen)


def test_a_killed_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole = Classifier()
    trainer(tmp_path / "whole", whole, BinarizationCallback(t_alpha=0.5)).train()
    assert toy.in_a_process(train_and_die, tmp_path / "killed") == -signal.SIGKILL
    resumed = Classifier()
    run = trainer(tmp_path / "killed", resumed, BinarizationCallback(t_alpha=0.5))
    run.train(resume_from_checkpoint=True)
    assert resumed.alphas == whole.alphas[-len(resumed.alphas) :] and 0 < len(resumed.alphas) < len(whole.alphas)
    toy.assert_same_weights(resumed, whole)


def test_the_trainers_own_adamw_in_bfloat16_and_compiled(tmp_path: Path) -> None:
    model = Classifier()
    options = {"bf16": True, "torch_compile": True, "torch_compile_backend": "aot_eager", "save_strategy": "no"}
    run = trainer(tmp_path, model, BinarizationCallback(t_alpha=0.5), sgdw=False, weight_decay=0.1, **options)
    run.train()
    assert toy.alpha(model.network) == 1
    assert {group["weight_decay"] for group in run.optimizer.param_groups} == {0.0, 0.1}, "AdamW's step scales it"
    sw.refuse_nonfinite(model)


def test_an_average_of_the_weights_is_a_binary_model_with_the_alpha_of_its_step(tmp_path: Path) -> None:
    model = Classifier()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))

    class Averages(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            average.update_parameters(model)

    trainer(tmp_path, model, BinarizationCallback(t_alpha=0.5), Averages(), save_strategy="no").train()
    averaged = average.get_submodule("module.network").eval()
    assert toy.alpha(averaged) == 1
    outputs = averaged(toy.images()[0])
    assert not torch.equal(outputs, model.network.eval()(toy.images()[0]))
    sw.pack_(averaged)
    torch.testing.assert_close(averaged(toy.images()[0]), outputs)


def test_methods_that_act_around_a_step_are_called(tmp_path: Path) -> None:
    model = Classifier(sw.BinaryConnect())
    trainer(tmp_path, model, BinarizationCallback(), save_strategy="no", learning_rate=1.0).train()
    (layer,) = (layer for _, layer in sw.binary_layers(model))
    assert float(layer.weight.detach().abs().max()) <= 1


def test_a_float_model_and_deepspeed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(sw.SignwiseError, match="no binary layer: call signwise"):
        trainer(tmp_path, FloatClassifier(), BinarizationCallback(), sgdw=False).train()
    model, arguments = Classifier(), type("Arguments", (), {"deepspeed": "zero.json"})()
    optimizer = sw.SGDW(model.parameters(), lr=0.1)
    with pytest.raises(sw.SignwiseError, match="DeepSpeed"):
        BinarizationCallback().on_train_begin(arguments, None, None, model=model, optimizer=optimizer)


class FloatClassifier(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(12, 3))

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self.network(inputs), labels)}
