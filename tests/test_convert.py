"""What binarize_ does to a model, and what it says about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import signwise as sw


def make_model() -> Any:  # nn.Sequential, whose items mypy does not know
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 1)),
        nn.Flatten(),
        nn.Linear(16, 8),
        nn.Linear(8, 2),
    )


def became(model: nn.Module) -> list[str]:
    return [name for name, _ in sw.binary_layers(model)]


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        (sw.first_and_last, ["2.0", "2.1", "4"]),
        (sw.last, ["0", "2.0", "2.1", "4"]),
        ("2.*", ["0", "4", "5"]),
        (lambda module, name: isinstance(module, nn.Linear), ["0", "2.0", "2.1"]),
        ([sw.last, "0", "2.1"], ["2.0", "4"]),
        ([], ["0", "2.0", "2.1", "4", "5"]),
        (None, ["0", "2.0", "2.1", "4", "5"]),
    ],
)
def test_skip_takes_positions_globs_predicates_and_lists(skip: Any, expected: list[str]) -> None:
    model = make_model()
    sw.binarize_(model, skip=skip)
    assert became(model) == expected


def test_the_report_names_every_layer_with_weights_and_why_it_stayed_float() -> None:
    model = make_model()
    model.append(nn.Embedding(5, 3))
    model.append(nn.Conv2d(4, 4, 1, groups=4))
    report = sw.binarize_(model, skip=[sw.last, "2.1"])
    reasons = {layer.name: layer.reason for layer in report.layers}
    assert reasons == {
        "0": "",
        "2.0": "",
        "2.1": "skip='2.1'",
        "4": "",
        "5": "",
        "6": "Embedding is neither linear nor a convolution",
        "7": "last layer in registration order",
    }
    assert report.binary_weights == 4 * 9 + 4 * 2 * 9 + 16 * 8 + 8 * 2
    text = str(report)
    assert "float: last layer in registration order" in text and f"{report.binary_weights:,} weights are binary" in text


def test_layers_that_cannot_become_binary_stay_float_and_say_why() -> None:
    class Own(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) + 1

    model = nn.ModuleDict(
        {"own": Own(4, 4), "thin": nn.Linear(1, 4), "lazy": nn.LazyLinear(3), "plain": nn.Linear(4, 4)}
    )
    report = sw.binarize_(model, skip=None)
    reasons = {layer.name: layer.reason for layer in report.layers}
    assert reasons["own"] == "Own is a subclass with its own code"
    assert reasons["thin"] == "a filter with fewer than 2 weights"
    assert reasons["lazy"] == "its shape is unknown before a first forward pass"
    assert became(model) == ["plain"]


def test_parameters_hooks_and_references_stay_the_same_objects() -> None:
    model = make_model()
    calls: list[int] = []
    layer, weight = model[4], model[4].weight
    layer.register_forward_hook(lambda *_: calls.append(1))
    sw.binarize_(model)
    assert model[4] is layer and layer.weight is weight and isinstance(layer, sw.BinaryLinear)
    model(torch.randn(2, 1, 6, 6))
    assert calls == [1]


def test_a_model_that_is_one_layer_becomes_binary_in_place() -> None:
    model = nn.Linear(4, 4)
    report = sw.binarize_(model, skip=None)
    assert isinstance(model, sw.BinaryLinear) and report.layers[0].name == "(the model)"


def test_binarizing_again_changes_the_method() -> None:
    model = make_model()
    sw.binarize_(model)
    sw.binarize_(model, method=sw.ScaledSign())
    assert isinstance(model[4].method, sw.ScaledSign)


HIDDEN: dict[str, Callable[[], nn.Module]] = {
    "MultiheadAttention": lambda: nn.MultiheadAttention(8, 2),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    "LSTM": lambda: nn.LSTM(4, 4),
    "GRU": lambda: nn.GRU(4, 4),
    "RNN": lambda: nn.RNN(4, 4),
    "GRUCell": lambda: nn.GRUCell(4, 4),
}


@pytest.mark.parametrize("kind", list(HIDDEN))
def test_modules_that_read_the_weights_of_their_layers_are_refused_by_name(kind: str) -> None:
    model = nn.ModuleDict({"body": nn.Linear(8, 8), "hidden": HIDDEN[kind]()})
    with pytest.raises(sw.SignwiseError, match=f"hidden(.self_attn)? is a {kind}.*skip='hidden"):
        sw.binarize_(model, skip=None)
    assert became(model) == [], "a refused model is left as it was"


@pytest.mark.parametrize("kind", list(HIDDEN))
def test_such_a_module_may_stay_float_as_a_whole(kind: str) -> None:
    model = nn.ModuleDict({"body": nn.Linear(8, 8), "hidden": HIDDEN[kind]()})
    sw.binarize_(model, skip="hidden*")
    assert became(model) == ["body"]


def test_a_transformer_keeps_its_layers_float_when_only_its_own_name_is_skipped() -> None:
    model = nn.ModuleDict({"body": nn.Linear(8, 8), "hidden": nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)})
    sw.binarize_(model, skip="hidden")
    assert became(model) == ["body"]


def test_a_glob_that_matches_nothing_is_refused() -> None:
    with pytest.raises(sw.SignwiseError, match=r"skip='head\.\*' matches no module"):
        sw.binarize_(make_model(), skip="head.*")


def test_something_else_as_a_skip_is_refused() -> None:
    with pytest.raises(sw.SignwiseError, match="skip takes names"):
        sw.binarize_(make_model(), skip=[3])  # type: ignore[list-item]  # wrong on purpose


class OutOfOrder(nn.Module):
    """Registers its layers in another order than it runs them, and never runs one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 6)
        self.head = nn.Linear(6, 2)
        self.norm = nn.BatchNorm1d(6)
        self.dropout = nn.Dropout(0.5)
        self.stem = nn.Linear(4, 6)
        self.unused = nn.Linear(6, 6)

    def forward(self, input: Tensor, scale: float = 1.0) -> Tensor:
        hidden = self.dropout(self.norm(self.body(self.stem(input * scale))))
        return torch.as_tensor(self.head(hidden))


def test_with_an_example_first_and_last_are_those_of_the_forward_pass() -> None:
    registered, executed, only_last = OutOfOrder(), OutOfOrder(), OutOfOrder()
    report = sw.binarize_(registered)
    assert became(registered) == ["head", "stem"]
    reasons = {layer.name: layer.reason for layer in report.layers if layer.reason}
    assert reasons == {"body": "first layer in registration order", "unused": "last layer in registration order"}

    report = sw.binarize_(executed, example_input=torch.randn(3, 4))
    assert became(executed) == ["body", "unused"]
    assert {layer.name: layer.reason for layer in report.layers if layer.reason} == {
        "head": "last layer",
        "stem": "first layer",
    }
    sw.binarize_(only_last, skip=[sw.last], example_input=(torch.randn(3, 4), 2.0))
    assert became(only_last) == ["body", "stem", "unused"]


def test_an_example_changes_nothing_but_the_choice_of_layers() -> None:
    model = OutOfOrder()
    model.norm.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random_state = torch.get_rng_state()
    sw.binarize_(model, example_input=torch.ones(3, 4))
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training and model.dropout.training and not model.norm.training
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_report_prints_as_an_aligned_table() -> None:
    lines = str(sw.binarize_(make_model())).splitlines()
    assert lines[0].split() == ["layer", "kind", "weights", "became"]
    assert lines[1] == "0      Conv2d       36  float: first layer in registration order"
    assert lines[-1] == "216 weights are binary, 52 stayed float"
