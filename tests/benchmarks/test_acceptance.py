"""The acceptance of other people's models: its checks hold for a plain model and notice one that reads latents."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import signwise as sw
from signwise.packing.layers import PackedLinear


@pytest.fixture(scope="module")
def script(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("acceptance")


class ReadsWeights(nn.Module):
    """Calls its layer and reads its weight as well, once it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        self.reads = False

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).relu()
        hidden = F.linear(hidden, self.middle.weight) if self.reads else self.middle(hidden)
        outputs: Tensor = self.last(hidden.relu())
        return outputs


def test_a_model_that_reads_latents_is_noticed(script: ModuleType) -> None:
    torch.manual_seed(0)
    case = script._other_models.Case(ReadsWeights(), (torch.randn(4, 8),))
    assert script.convert(case)["binary"] == 256
    script.check_latents(case)
    case.model.reads = True
    with pytest.raises(script.Failed, match="something reads them"):
        script.check_latents(case)


def test_every_step_holds_for_a_model_of_torch(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> object:
        inputs, target = torch.randn(8, 8), torch.arange(8) % 4
        loss: Callable[[Tensor], Tensor] = lambda outputs: F.cross_entropy(outputs, target)  # noqa: E731
        return script._other_models.Case(ReadsWeights(), (inputs,), loss)

    monkeypatch.setitem(script.MODELS, "own", build)
    found = script.attempt("own")
    assert found["failures"] == {} and found["compile"] == "ok" and found["packed_difference"] < 1e-5
    assert script.fell(found["SGDW"]) and script.fell(found["AdamW"])


def test_a_report_that_leaves_out_a_weight_is_noticed(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sw.convert.Report, "float_weights", property(lambda self: 0))
    case = script._other_models.Case(ReadsWeights(), (torch.randn(4, 8),))
    with pytest.raises(script.Failed, match="the report counts 256 weights, the model has 448"):
        script.convert(case)


def test_a_packed_layer_that_computes_something_else_is_noticed(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    case = script._other_models.Case(ReadsWeights(), (torch.randn(4, 8),))
    script.convert(case)
    for _, layer in script.binary_layers(case.model):
        layer.alpha.fill_(1.0)
    forward = PackedLinear.forward
    monkeypatch.setattr(PackedLinear, "forward", lambda self, x: 1.0001 * forward(self, x))
    with pytest.raises(script.Failed, match=r"the outputs of the packed middle differ by 1\.0e-04"):
        script.check_packed(lambda: case, case)


def test_a_loss_that_falls_with_neither_schedule_is_a_failure(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build() -> object:
        return script._other_models.Case(ReadsWeights(), (torch.randn(8, 8),))

    def falls_as_float_only(case: object, optimizer: object, schedule: object) -> tuple[float, float]:
        return (2.0, 1.0) if schedule is None else (2.0, 2.5)

    monkeypatch.setitem(script.MODELS, "own", build)
    monkeypatch.setattr(script, "train", falls_as_float_only)
    found = script.attempt("own", steps=("train",))
    assert found["failures"]["train SGDW"] == "the loss goes from 2 to 2.5"
    assert found["SGDW, slower"] == (2.0, 2.5) and found["SGDW, float"] == (2.0, 1.0)
