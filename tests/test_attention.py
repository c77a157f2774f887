"""Attention whose projections are layers: PyTorch's in every respect, and binary where binarize_ makes it so."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

import signwise as sw

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch first": {"batch_first": True},
    "without bias": {"bias": False},
    "own widths": {"kdim": 6, "vdim": 10, "batch_first": True},
    "appended tokens": {"add_bias_kv": True, "add_zero_attn": True},
}
HEADS, WIDTH, QUERIES, KEYS, BATCH = 2, 8, 5, 7, 3


def inputs(options: dict[str, Any], alone: bool = False) -> list[Tensor]:
    widths = (WIDTH, options.get("kdim", WIDTH), options.get("vdim", WIDTH))
    made = [torch.randn(BATCH, length, width) for length, width in zip((QUERIES, KEYS, KEYS), widths, strict=True)]
    if alone:
        return [part[0] for part in made]
    return made if options.get("batch_first") else [part.transpose(0, 1) for part in made]


CALLS: dict[str, dict[str, Any]] = {
    "weights": {},
    "weights per head": {"average_attn_weights": False},
    "no weights": {"need_weights": False},
    "additive mask": {"attn_mask": torch.randn(QUERIES, KEYS), "need_weights": False},
    "mask per head": {"attn_mask": torch.rand(BATCH * HEADS, QUERIES, KEYS) < 0.3},
    "causal": {
        "attn_mask": torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1), "is_causal": True, "need_weights": False,
    },
    "padding": {"key_padding_mask": torch.arange(KEYS).expand(BATCH, -1) > 3, "need_weights": False},
    "padding and mask": {
        "key_padding_mask": torch.arange(KEYS).expand(BATCH, -1) > 3,
        "attn_mask": torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(3),
    },
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", OPTIONS)
def test_outputs_weights_and_gradients_are_those_of_pytorch(name: str, call: str) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, **OPTIONS[name])
    ours = sw.MultiheadAttention(WIDTH, HEADS, **OPTIONS[name])
    ours.load_state_dict(theirs.state_dict())
    parts = inputs(OPTIONS[name])
    found, expected = ours(*parts, **CALLS[call]), theirs(*parts, **CALLS[call])
    torch.testing.assert_close(found, expected)
    for result in (found, expected):
        result[0].square().sum().backward()
    for key, parameter in theirs.named_parameters():
        mine = ours
        for part in key.split("."):
            mine = getattr(mine, part)
        torch.testing.assert_close(mine.grad, parameter.grad)


def test_one_sequence_without_a_batch_and_self_attention_agree_too() -> None:
    torch.manual_seed(0)
    theirs, ours = nn.MultiheadAttention(WIDTH, HEADS), sw.MultiheadAttention(WIDTH, HEADS)
    ours.load_state_dict(theirs.state_dict())
    parts = inputs({}, alone=True)
    torch.testing.assert_close(ours(*parts), theirs(*parts))
    x = torch.randn(4, 2, WIDTH)
    torch.testing.assert_close(ours(x, x, x), theirs(x, x, x))


@pytest.mark.parametrize("name", OPTIONS)
def test_state_dicts_have_pytorch_s_keys_and_load_both_ways(name: str) -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, **OPTIONS[name])
    ours = sw.MultiheadAttention(WIDTH, HEADS, **OPTIONS[name])
    assert set(ours.state_dict()) == set(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    for key, tensor in ours.state_dict().items():
        assert torch.equal(theirs.state_dict()[key], tensor)
    ours.load_state_dict(nn.MultiheadAttention(WIDTH, HEADS, **OPTIONS[name]).state_dict(), assign=True)
    with pytest.raises(RuntimeError, match=r"Missing key.*in_proj"):
        sw.MultiheadAttention(WIDTH, HEADS).load_state_dict({})


class Classifier(nn.Module):
    """Reads a picture row by row."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.stem, self.encoder, self.head = nn.Linear(28, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.encoder(self.stem(x)).mean(1))
        return found


def digits(count: int) -> tuple[Tensor, Tensor]:
    data = sw.datasets.load("mnist")
    images = torch.from_numpy(data.train_images[:count].astype(np.float32)).reshape(count, 28, 28) / 255
    return images, torch.from_numpy(data.train_labels[:count].astype(np.int64))


PROJECTIONS = [f"encoder.layers.{layer}.{name}" for layer in (0, 1)
               for name in ("self_attn.in_proj", "self_attn.out_proj", "linear1", "linear2")]  # fmt: skip


def test_binarize_makes_the_projections_of_an_encoder_binary_and_keeps_every_parameter_and_key() -> None:
    model = Classifier()
    keys, parameters = list(model.state_dict()), {id(parameter) for parameter in model.parameters()}
    report = sw.binarize_(model, example_input=torch.randn(2, 5, 28))
    assert [layer.name for layer in report.layers if layer.binary] == PROJECTIONS
    assert list(model.state_dict()) == keys
    assert {id(parameter) for parameter in model.parameters()} == parameters
    Classifier().load_state_dict(model.state_dict())
    model.load_state_dict(Classifier().state_dict())


def deployed(model: nn.Module) -> Classifier:
    """The float model with the weights that a binary one deploys."""
    state = model.state_dict()
    for name, layer in sw.binary_layers(model):
        state[f"{name}.weight".replace("in_proj.weight", "in_proj_weight")] = layer.effective_weight().detach()
    plain = Classifier().eval()
    plain.load_state_dict(state)
    plain.encoder.use_nested_tensor = False
    return plain


@pytest.mark.parametrize("gradients", [True, False])
def test_evaluation_uses_signs_with_and_without_gradients(gradients: bool) -> None:
    """Without gradients PyTorch would hand the latents to its fused kernel."""
    torch.manual_seed(0)
    model = Classifier()
    sw.binarize_(model)
    model.eval()
    x = torch.randn(3, 5, 28)
    with torch.set_grad_enabled(gradients):
        torch.testing.assert_close(model(x), deployed(model)(x), rtol=1e-4, atol=1e-4)
        padding = torch.arange(5).expand(3, -1) > 2
        hidden = model.stem(x)
        found = model.encoder(hidden, src_key_padding_mask=padding)
        expected = deployed(model).encoder(hidden, src_key_padding_mask=padding)
        torch.testing.assert_close(found[:, :3], expected[:, :3], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_an_encoder_with_binary_attention_learns_digits_packs_and_compiles(tmp_path: Path) -> None:
    torch.manual_seed(0)
    (images, labels), steps = digits(2000), 120
    model = Classifier()
    sw.binarize_(model, example_input=images[:2])
    optimizer = torch.optim.AdamW(sw.param_groups(model, weight_decay=1e-2), lr=2e-3)
    sw.attach(optimizer, model, sw.BinarizationSchedule(total_steps=steps, t_alpha=0.5))
    losses = []
    for step in range(steps):
        picked = torch.arange(step * 50, step * 50 + 50) % len(images)
        loss = F.cross_entropy(model(images[picked]), labels[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-10:]) < 0.75 * np.mean(losses[:10])

    model.eval()
    x = images[:8]
    expected = model(x).detach()
    program = sw.compile(model, x)
    np.testing.assert_allclose(program(x.numpy()), expected, rtol=1e-4, atol=1e-4)
    assert sum(getattr(operation, "bits", 32) == 1 for operation in program.ops) == len(PROJECTIONS)

    sw.pack_(model)
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-4)
    save_file(model.state_dict(), tmp_path / "packed.safetensors")
    again = Classifier()
    report = sw.load_packed_(again, tmp_path / "packed.safetensors")
    assert sorted(report.layers) == sorted(PROJECTIONS)
    with torch.no_grad():
        assert torch.equal(again(x), model(x))
    np.testing.assert_allclose(sw.compile(again, x)(x.numpy()), expected, rtol=1e-4, atol=1e-4)


def test_attention_that_stays_float_is_as_before() -> None:
    model = Classifier()
    sw.binarize_(model, skip=["encoder.layers.*.self_attn", "stem", "head", "*.linear1"])
    for layer in model.encoder.layers:
        assert type(layer.self_attn) is nn.MultiheadAttention
        assert not layer.activation_relu_or_gelu, "its linear2 is binary, so it may not run fused"
    untouched = Classifier()
    with pytest.warns(UserWarning, match="made no layer binary"):
        sw.binarize_(untouched, skip="*")
    assert [type(module) for module in untouched.modules()] == [type(module) for module in Classifier().modules()]
    assert untouched.encoder.use_nested_tensor and untouched.encoder.layers[0].activation_relu_or_gelu


def test_a_refusal_leaves_the_model_as_it_was() -> None:
    model = Classifier()
    names = [name for name, _ in model.named_parameters()]
    with pytest.raises(sw.SignwiseError, match="matches no module"):
        sw.binarize_(model, skip="nothing")
    sw.binarize_(packed := Classifier())
    sw.pack_(packed)
    state = packed.state_dict()
    del state["head.weight"]
    with pytest.raises(sw.SignwiseError, match=r"lacks head\.weight"):
        sw.load_packed_(model, state)
    assert [name for name, _ in model.named_parameters()] == names
    assert type(model.encoder.layers[0].self_attn) is nn.MultiheadAttention


def test_copies_and_pickles_compute_the_same() -> None:
    torch.manual_seed(0)
    model = Classifier()
    sw.binarize_(model)
    model.eval()
    x = torch.randn(2, 4, 28)
    with torch.no_grad():
        for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(again(x), model(x))


def test_a_decoder_attends_to_another_sequence_with_binary_projections() -> None:
    torch.manual_seed(0)
    decoder = nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    report = sw.binarize_(decoder, skip=None)
    assert all(layer.binary for layer in report.layers)
    decoder.eval()
    x, memory = torch.randn(2, 3, 16), torch.randn(2, 6, 16)
    program = sw.compile(decoder, (x, memory))
    found = program(x.numpy(), memory.numpy())
    np.testing.assert_allclose(found, decoder(x, memory).detach(), rtol=1e-4, atol=1e-4)
