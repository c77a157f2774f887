"""What binarize_ does to a model, and what it says about it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import signwise as sw


def network() -> nn.Sequential:
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
def test_skip_takes_positions_globs_predicates_and_lists(skip, expected):
    model = network()
    sw.binarize_(model, skip=skip)
    assert became(model) == expected


def test_the_report_says_of_every_layer_what_it_became_and_why():
    model = network()
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
        "7": "last layer",
    }
    assert report.binary_weights == 4 * 9 + 4 * 2 * 9 + 16 * 8 + 8 * 2
    text = str(report)
    assert "float: last layer" in text and f"{report.binary_weights:,} weights are binary" in text


def test_layers_that_cannot_become_binary_stay_float_and_say_why():
    class Own(nn.Linear):
        def forward(self, input):
            return super().forward(input) + 1

    model = nn.ModuleDict(
        {"own": Own(4, 4), "thin": nn.Linear(1, 4), "lazy": nn.LazyLinear(3), "plain": nn.Linear(4, 4)}
    )
    report = sw.binarize_(model, skip=None)
    reasons = {layer.name: layer.reason for layer in report.layers}
    assert reasons["own"] == "Own is a subclass with code of its own"
    assert reasons["thin"] == "a filter with fewer than 2 weights"
    assert reasons["lazy"] == "its shape is not known before a first forward pass"
    assert became(model) == ["plain"]


def test_parameters_hooks_and_references_stay_the_same_objects():
    model = network()
    layer, weight, calls = model[4], model[4].weight, []
    layer.register_forward_hook(lambda *_: calls.append(1))
    sw.binarize_(model)
    assert model[4] is layer and layer.weight is weight and isinstance(layer, sw.BinaryLinear)
    model(torch.randn(2, 1, 6, 6))
    assert calls == [1]


def test_a_model_that_is_one_layer_becomes_binary_in_place():
    model = nn.Linear(4, 4)
    report = sw.binarize_(model, skip=None)
    assert isinstance(model, sw.BinaryLinear) and report.layers[0].name == "(the model)"


def test_binarizing_again_changes_the_method():
    model = network()
    sw.binarize_(model)
    sw.binarize_(model, method=sw.ScaledSign())
    assert isinstance(model[4].method, sw.ScaledSign)


HIDDEN = {
    "MultiheadAttention": lambda: nn.MultiheadAttention(8, 2),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    "LSTM": lambda: nn.LSTM(4, 4),
    "GRU": lambda: nn.GRU(4, 4),
    "RNN": lambda: nn.RNN(4, 4),
    "GRUCell": lambda: nn.GRUCell(4, 4),
}


@pytest.mark.parametrize("kind", list(HIDDEN))
def test_modules_that_read_weights_behind_a_layers_back_are_refused_by_name(kind):
    model = nn.ModuleDict({"body": nn.Linear(8, 8), "hidden": HIDDEN[kind]()})
    with pytest.raises(sw.SignwiseError, match=f"hidden(.self_attn)? is a {kind}.*skip='hidden"):
        sw.binarize_(model, skip=None)
    assert became(model) == [], "a refused model is left as it was"


@pytest.mark.parametrize("kind", list(HIDDEN))
def test_such_a_module_may_stay_float_as_a_whole(kind):
    model = nn.ModuleDict({"body": nn.Linear(8, 8), "hidden": HIDDEN[kind]()})
    sw.binarize_(model, skip="hidden*")
    assert became(model) == ["body"]


def test_a_transformer_keeps_its_layers_float_when_only_its_own_name_is_skipped():
    model = nn.ModuleDict({"body": nn.Linear(8, 8), "hidden": nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)})
    sw.binarize_(model, skip="hidden")
    assert became(model) == ["body"]


def test_a_glob_that_matches_nothing_is_refused():
    with pytest.raises(sw.SignwiseError, match=r"skip='head\.\*' matches no module"):
        sw.binarize_(network(), skip="head.*")


def test_something_else_as_a_skip_is_refused():
    with pytest.raises(sw.SignwiseError, match="skip takes names"):
        sw.binarize_(network(), skip=[3])


def test_decay_reaches_weights_and_leaves_biases_and_norms_alone():
    model = network()
    sw.binarize_(model)
    decayed, spared = sw.param_groups(model, weight_decay=1e-3)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert decayed["weight_decay"] == 1e-3 and spared["weight_decay"] == 0
    assert {names[id(p)] for p in decayed["params"]} == {"0.weight", "2.0.weight", "2.1.weight", "4.weight", "5.weight"}
    assert {names[id(p)] for p in spared["params"]} == set(names.values()) - {names[id(p)] for p in decayed["params"]}


def test_frozen_parameters_are_left_out_of_the_groups():
    model = network()
    model[0].weight.requires_grad_(False)
    listed = [parameter for group in sw.param_groups(model, 0.1) for parameter in group["params"]]
    assert all(parameter is not model[0].weight for parameter in listed)
