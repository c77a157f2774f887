"""What binarize_ does to a model, and what it says about it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

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


class OwnAttention(nn.MultiheadAttention):
    """A subclass may do anything with the weights that it inherits."""


HIDDEN: dict[str, Callable[[], nn.Module]] = {
    "OwnAttention": lambda: OwnAttention(8, 2),
    "LSTM": lambda: nn.LSTM(4, 4),
    "GRU": lambda: nn.GRU(4, 4),
    "RNN": lambda: nn.RNN(4, 4),
    "GRUCell": lambda: nn.GRUCell(4, 4),
}


@pytest.mark.parametrize("kind", list(HIDDEN))
def test_modules_that_read_the_weights_of_their_layers_stay_float_by_name(kind: str) -> None:
    model = nn.ModuleDict({"body": nn.Linear(8, 8), "hidden": HIDDEN[kind]()})
    report = sw.binarize_(model, skip=None)
    assert became(model) == ["body"]
    hidden = [layer for layer in report.layers if layer.name.startswith("hidden")]
    assert hidden and all("reads the weights of its layers directly" in layer.reason for layer in hidden)
    total = sum(weight.numel() for weight in model.parameters() if weight.dim() > 1)
    assert report.binary_weights + report.float_weights == total


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


class ReadsDirectly(nn.Module):
    """Computes one projection by itself, as Swin's attention and Mamba's mixer do."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.qkv, self.dtype_only, self.head = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, input: Tensor) -> Tensor:
        hidden = F.linear(self.stem(input), self.qkv.weight, self.qkv.bias)
        return torch.as_tensor(self.head(self.dtype_only(hidden.to(self.dtype_only.weight.dtype))))


def depends_on_the_size_of_latents(model: nn.Module, inputs: Tensor) -> bool:
    """Signs do not change when latents grow threefold, so outputs must not either."""
    grown = copy.deepcopy(model)
    with torch.no_grad():
        for _, layer in sw.binary_layers(grown):
            layer.weight.mul_(3)
        return not torch.equal(model.eval()(inputs), grown.eval()(inputs))


def test_a_layer_whose_weight_is_read_without_a_call_stays_float_with_an_example() -> None:
    model, inputs = ReadsDirectly(), torch.randn(3, 8)
    report = sw.binarize_(model, example_input=inputs, method=sw.GroupTransform())
    assert became(model) == ["dtype_only"]
    reason = next(layer.reason for layer in report.layers if layer.name == "qkv")
    assert reason == "the model (ReadsDirectly) reads its weight without calling it"
    assert not depends_on_the_size_of_latents(model, inputs)


def test_without_an_example_training_warns_of_a_layer_that_no_forward_pass_calls() -> None:
    model, inputs = ReadsDirectly(), torch.randn(3, 8)
    sw.binarize_(model, method=sw.GroupTransform())
    assert depends_on_the_size_of_latents(model, inputs)
    optimizer = sw.SGDW(model.parameters(), lr=0.1)
    sw.attach(optimizer, model, sw.BinarizationSchedule(10))
    model.train()(inputs).sum().backward()
    with pytest.warns(UserWarning, match="qkv has a gradient although no forward pass called it"):
        optimizer.step()
    model(inputs).sum().backward()
    optimizer.step()


def test_the_name_of_a_container_keeps_everything_inside_float() -> None:
    model = make_model()
    report = sw.binarize_(model, skip="2")
    assert became(model) == ["0", "4", "5"]
    assert {layer.name: layer.reason for layer in report.layers if layer.reason} == {
        "2.0": "skip='2'",
        "2.1": "skip='2'",
    }


class OwnStart(nn.Linear):
    """Computes what nn.Linear computes."""

    def __init__(self, size: int) -> None:
        super().__init__(size, size)
        self.size = size

    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, 0.5)

    def extra_repr(self) -> str:
        return f"size={self.size}"


def test_a_subclass_that_computes_what_its_parent_does_becomes_binary() -> None:
    model: Any = nn.Sequential(OwnStart(8), nn.BatchNorm1d(8))
    sw.binarize_(model, skip=None)
    layer, inputs = model[0], torch.randn(3, 8)
    assert isinstance(layer, sw.BinaryLinear) and isinstance(layer, OwnStart) and "size=8" in repr(layer)
    with torch.no_grad():
        layer.weight.normal_()
    expected = model.eval()(inputs)
    torch.testing.assert_close(layer(inputs), F.linear(inputs, torch.sign(layer.weight), layer.bias))
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(again(inputs), expected) and type(again[0]) is type(layer)
    layer.reset_parameters()
    assert bool((layer.weight == 0.5).all())
    with torch.no_grad():
        layer.weight.normal_()
    expected = model(inputs)
    program = sw.compile(model, inputs)
    torch.testing.assert_close(torch.from_numpy(program(inputs.numpy())), expected, rtol=1e-4, atol=1e-4)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    sw.pack_(model)
    torch.testing.assert_close(model(inputs), expected, rtol=1e-4, atol=1e-4)
    fresh = nn.Sequential(OwnStart(8), nn.BatchNorm1d(8))
    fresh.load_state_dict(state)
    sw.load_packed_(fresh, model.state_dict())
    assert torch.equal(fresh(inputs), model(inputs))


def conv1d_of_transformers() -> type[Any]:
    class Conv1D(nn.Module):
        def __init__(self, nf: int, nx: int) -> None:
            super().__init__()
            self.nf, self.nx = nf, nx
            self.weight = nn.Parameter(torch.randn(nx, nf))
            self.bias = nn.Parameter(torch.zeros(nf))

        def forward(self, x: Tensor) -> Tensor:
            return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.nf)

    Conv1D.__module__ = "transformers.pytorch_utils"
    return Conv1D


def test_the_transposed_linear_layer_of_gpt2_becomes_binary_per_output() -> None:
    kind = conv1d_of_transformers()
    model: Any = nn.Sequential(kind(6, 4), nn.LayerNorm(6), kind(4, 6))
    inputs = torch.randn(2, 3, 4)
    report = sw.binarize_(model, skip=None, example_input=inputs)
    assert became(model) == ["0", "2"] and report.binary_weights == 48
    assert report.layers[0].note == "" and "scale per filter" in report.layers[1].note
    first, last = model[0], model[2]
    torch.testing.assert_close(first.eval()(inputs), inputs @ torch.sign(first.weight) + first.bias)
    hidden = torch.randn(2, 3, 6)
    expected = hidden @ (torch.sign(last.weight) * last.weight.abs().mean(0)) + last.bias
    torch.testing.assert_close(last.eval()(hidden), expected)
    expected = model.eval()(inputs)
    sw.pack_(model)
    torch.testing.assert_close(model(inputs), expected)
    assert model[0].weight.shape == (4, 6)
    fresh = nn.Sequential(kind(6, 4), nn.LayerNorm(6), kind(4, 6))
    sw.load_packed_(fresh, model.state_dict())
    torch.testing.assert_close(fresh(inputs), expected)


def test_every_weight_that_is_not_a_layers_is_named() -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate_up_proj = nn.Parameter(torch.zeros(3, 4, 8))

    class Standardized(nn.Conv2d):
        def forward(self, input: Tensor) -> Tensor:
            return torch.as_tensor(self._conv_forward(input, self.weight - self.weight.mean(), self.bias))

    model = nn.ModuleDict({"experts": Experts(), "conv": Standardized(2, 2, 3), "body": nn.Linear(4, 4)})
    report = sw.binarize_(model, skip=None)
    reasons = {layer.name: (layer.reason, layer.weights) for layer in report.layers}
    expected = "a parameter of a Experts, not the weight of a linear layer or a convolution"
    assert reasons["experts.gate_up_proj"] == (expected, 96)
    assert reasons["conv"] == ("Standardized is a subclass with its own code", 36)


def test_a_warning_says_that_nothing_became_binary_and_why() -> None:
    with pytest.warns(UserWarning, match=r"made no layer binary \(0: first layer.*1: last layer.*pass another skip="):
        sw.binarize_(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
    with pytest.warns(UserWarning, match="LSTM reads the weights"):
        sw.binarize_(nn.LSTM(4, 4), skip=None)


class TokenModel(nn.Module):
    """Registers and runs its embedding first; the head shares its weight where ``tied``."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.head = nn.Linear(8, 16, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        x = x + self.out(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))
        return torch.as_tensor(self.head(x))


@pytest.mark.parametrize("example", [None, torch.arange(6).view(2, 3)])
def test_an_embedding_counts_as_the_first_layer(example: Tensor | None) -> None:
    model = TokenModel(tied=False)
    sw.binarize_(model, example_input=example)
    assert became(model) == ["q", "k", "v", "out"]


@pytest.mark.parametrize("skip", [sw.first_and_last, None])
def test_tied_weights_count_once_and_stay_float_with_their_embedding(skip: Any) -> None:
    model = TokenModel(tied=True)
    report = sw.binarize_(model, skip=skip)
    assert became(model) == ["q", "k", "v", "out"]
    assert (report.binary_weights, report.float_weights) == (4 * 64, 16 * 8)
    head = report.layers[-1]
    assert head.tied_to == "embedding" and "tied to embedding" in str(report)
    if skip is None:
        assert head.reason == "it shares its weight with embedding (Embedding), which stays float"
    assert sw.summary(model).parameters == sum(weight.numel() for weight in model.parameters())


class TwoTowers(nn.Module):
    """Like CLIP: registers the text tower first; the output layer is registered in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(16, 8)
        self.text = nn.Linear(8, 8)
        self.out = nn.Linear(8, 8)
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.image = nn.Linear(8, 8)

    def forward(self, tokens: Tensor, pixels: Tensor) -> Tensor:
        text = self.text(self.tokens(tokens)).mean(1)
        image = self.image(self.patches(pixels).flatten(2).transpose(1, 2)).mean(1)
        return torch.as_tensor(self.out(text * image))


@pytest.mark.parametrize("by_keyword", [False, True])
def test_every_layer_that_reads_an_input_is_a_first_layer(by_keyword: bool) -> None:
    model, inputs = TwoTowers(), (torch.arange(6).view(2, 3), torch.randn(2, 3, 8, 8))
    example = {"tokens": inputs[0], "pixels": inputs[1]} if by_keyword else inputs
    report = sw.binarize_(model, example_input=example)
    assert became(model) == ["text", "image"]
    assert {layer.name: layer.reason for layer in report.layers if layer.reason} == {
        "tokens": "first layer",
        "patches": "first layer",
        "out": "last layer",
    }


class Autoencoder(nn.Module):
    """Like diffusers' VAE: the convolution that makes the image is not registered last."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleDict({"conv_in": nn.Conv2d(3, 4, 3, padding=1), "conv": nn.Conv2d(4, 4, 3, padding=1)})
        self.decoder = nn.ModuleDict({"conv": nn.Conv2d(4, 4, 3, padding=1), "conv_out": nn.Conv2d(4, 3, 3, padding=1)})
        self.quant_conv, self.post_quant_conv = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, image: Tensor) -> Tensor:
        code = self.quant_conv(F.silu(self.encoder["conv"](self.encoder["conv_in"](image))))
        return torch.as_tensor(self.decoder["conv_out"](F.silu(self.decoder["conv"](self.post_quant_conv(code)))))


def test_the_layer_that_makes_the_image_stays_float() -> None:
    model = Autoencoder()
    sw.binarize_(model, example_input=torch.randn(1, 3, 8, 8))
    assert became(model) == ["encoder.conv", "decoder.conv", "quant_conv", "post_quant_conv"]


REPARAMETRIZED: dict[str, Callable[[nn.Module], Any]] = {
    "weight_norm": parametrizations.weight_norm,
    "spectral_norm": parametrizations.spectral_norm,
    "weight_norm by hook": lambda layer: torch.nn.utils.weight_norm(layer),
    "spectral_norm by hook": lambda layer: torch.nn.utils.spectral_norm(layer),
    "prune": lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
@pytest.mark.parametrize("kind", list(REPARAMETRIZED))
def test_reparametrized_layers_are_refused_by_name_unless_they_stay_float(kind: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    REPARAMETRIZED[kind](model[1])
    with pytest.raises(sw.SignwiseError, match=r"the weight of 1 is computed by a param.*remove.*skip=\[.*'1'\]"):
        sw.binarize_(model, skip=None)
    assert became(model) == []
    sw.binarize_(model, skip="1")
    assert became(model) == ["0", "2"]


def test_something_else_as_a_method_is_refused() -> None:
    with pytest.raises(sw.SignwiseError, match=r"method must be a Method.*got 'straight_through'"):
        sw.binarize_(make_model(), method="straight_through")  # type: ignore[arg-type]  # wrong on purpose


def scaled(model: nn.Module) -> list[str]:
    return [name for name, layer in sw.binary_layers(model) if getattr(layer.method, "scale", None) == "mean"]


class Residual(nn.Module):
    """One layer for each way in which a norm may follow, or not."""

    def __init__(self) -> None:
        super().__init__()
        self.normed, self.norm1 = nn.Linear(8, 8, bias=False), nn.LayerNorm(8)
        self.through_relu, self.norm2 = nn.Linear(8, 8), nn.LayerNorm(8)
        self.added, self.norm3 = nn.Linear(8, 8), nn.LayerNorm(8)
        self.gated, self.both = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(self.normed(x))
        x = self.norm2(F.dropout(self.through_relu(x).relu(), 0.1, self.training))
        x = self.norm3(x + self.added(x))
        both = self.both(F.gelu(self.gated(x)))
        return torch.as_tensor(both + self.norm1(both))


def test_layers_that_no_norm_follows_get_a_scale_and_the_report_says_so() -> None:
    seen, registered, own = Residual(), Residual(), Residual()
    report = sw.binarize_(seen, skip=None, example_input=torch.randn(2, 8))
    assert scaled(seen) == ["added", "gated", "both"]
    notes = {layer.name: layer.note for layer in report.layers}
    assert notes["added"] == "with a scale per filter, since no normalization follows" and notes["normed"] == ""
    report = sw.binarize_(registered, skip=None)
    assert len(scaled(registered)) == 5, "by registration only norms of channels count: residuals precede layer norms"
    assert report.layers[0].note.endswith("no normalization follows in registration order")
    sw.binarize_(own, skip=None, method=sw.GroupTransform())
    assert scaled(own) == []
    sw.binarize_(own, skip=None, output_scale=0.5)
    assert scaled(own) == []


def test_by_registration_a_batch_norm_of_the_layers_width_follows() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4), nn.Conv2d(4, 6, 3),
        nn.ReLU(), nn.Conv2d(6, 4, 3), nn.BatchNorm2d(6),
    )  # fmt: skip
    sw.binarize_(model, skip=None)
    assert scaled(model) == ["5", "7"]


def test_a_layer_that_the_example_does_not_call_is_named() -> None:
    report = sw.binarize_(OutOfOrder(), example_input=torch.randn(3, 4))
    note = next(layer.note for layer in report.layers if layer.name == "unused")
    assert note.endswith("not called with example_input")


def test_an_example_that_the_model_does_not_take_is_refused_and_changes_nothing() -> None:
    model = OutOfOrder()
    with pytest.raises(sw.SignwiseError, match=r"the model fails on example_input \(RuntimeError"):
        sw.binarize_(model, example_input=torch.randn(3, 5))
    assert became(model) == [] and not any(module._forward_hooks for module in model.modules())


class Encoder(nn.Module):
    """A block of BERT: norms come after the residual sums."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 32)
        self.q, self.k, self.v, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.pooler, self.head = nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        x = self.norm1(x + self.out(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))))
        x = self.norm2(x + self.down(F.gelu(self.up(x))))
        return torch.as_tensor(self.head(torch.tanh(self.pooler(x[:, 0]))))


class UNet(nn.Module):
    """Without norms."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.down = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.up, self.head = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 10, 1)

    def forward(self, image: Tensor) -> Tensor:
        skipped = F.relu(self.stem(image))
        up = F.relu(self.up(F.relu(self.middle(F.relu(self.down(skipped))))))
        return torch.as_tensor(self.head(torch.cat((skipped, up), 1)).mean((2, 3)))


WITHOUT_NORMS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)),
        lambda: torch.randn(32, 64),
    ),
    "encoder": (Encoder, lambda: torch.randint(0, 16, (32, 6))),
    "u-net": (UNet, lambda: torch.randn(32, 1, 8, 8)),
}


@pytest.mark.parametrize("with_example", [False, True])
@pytest.mark.parametrize("name", list(WITHOUT_NORMS))
def test_models_without_norms_train_by_default(name: str, with_example: bool) -> None:
    torch.manual_seed(0)
    build, draw = WITHOUT_NORMS[name]
    model, inputs, labels = build(), draw(), torch.randint(0, 10, (32,))
    sw.binarize_(model, example_input=inputs if with_example else None)
    optimizer = sw.SGDW(sw.param_groups(model, 1e-3), lr=0.05)
    sw.attach(optimizer, model, sw.BinarizationSchedule(60, t_alpha=0.5))
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(model.train()(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        deployed = F.cross_entropy(model.eval()(inputs), labels).item()
    assert losses[0] < 3 and max(losses) < 4, "no step explodes"
    assert losses[-1] < 0.95 * losses[0] and deployed < losses[0]


def test_the_tensors_behind_a_parametrized_weight_are_counted() -> None:
    hooked = parametrizations.weight_norm(nn.Linear(8, 8))
    model = nn.Sequential(nn.Linear(4, 8), hooked, nn.Linear(8, 8), nn.Linear(8, 2))
    report = sw.binarize_(model, skip=[sw.first_and_last, "1"])
    assert report.binary_weights == 64
    assert report.binary_weights + report.float_weights == sum(p.numel() for p in model.parameters() if p.dim() > 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"skip": 3}, "skip takes names, predicates, first_and_last or last, got 3"),
        ({"skip": nn.Linear}, "got the class Linear: .*isinstance"),
        ({"skip": [nn.Linear]}, "got the class Linear: .*isinstance"),
        ({"output_scale": "auto"}, "output_scale must be a number or a function .*got 'auto'"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_refused_with_the_right_one(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(sw.SignwiseError, match=message):
        sw.binarize_(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), **settings)


def test_a_state_dict_is_no_model() -> None:
    with pytest.raises(sw.SignwiseError, match="got OrderedDict; load a state dict into a model first"):
        sw.binarize_(nn.Linear(4, 4).state_dict())  # type: ignore[arg-type]
