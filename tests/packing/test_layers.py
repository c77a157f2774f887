from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import signwise as sw
from signwise.packing import PackedLayer, load_packed_, pack_

KINDS: list[tuple[type[nn.Module], tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    (nn.Linear, (7, 5), {}, (3, 7)),
    (nn.Linear, (19, 4), {"bias": False}, (2, 3, 19)),
    (nn.Conv1d, (4, 6, 3), {"padding": 1, "groups": 2}, (2, 4, 9)),
    (nn.Conv2d, (3, 5, 3), {"padding": 1, "stride": 2}, (2, 3, 8, 9)),
    (nn.Conv2d, (4, 6, (1, 5)), {"padding": "same", "dilation": (1, 2), "groups": 2, "bias": False}, (2, 4, 7, 9)),
    (nn.Conv2d, (3, 5, 4), {"padding": "same"}, (2, 3, 8, 9)),
    (nn.Conv2d, (3, 5, 3), {"padding": 1, "padding_mode": "circular"}, (2, 3, 8, 9)),
    (nn.Conv2d, (3, 5, 3), {}, (3, 8, 9)),
    (nn.Conv3d, (2, 3, 3), {"padding": 1}, (2, 2, 4, 5, 6)),
    (nn.ConvTranspose1d, (4, 6, 3), {"groups": 2}, (2, 4, 9)),
    (nn.ConvTranspose2d, (4, 6, 3), {"stride": 2, "groups": 2}, (2, 4, 5, 5)),
    (nn.ConvTranspose3d, (2, 3, 2), {}, (1, 2, 3, 3, 3)),
]


def binary(kind: type[nn.Module], arguments: tuple[Any, ...], options: dict[str, Any], **how: Any) -> Any:
    torch.manual_seed(0)
    layer = kind(*arguments, **options)
    sw.binarize_(layer, skip=None, **how)
    return layer.eval()


def float_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(8 * 36, 16), nn.ReLU(), nn.Linear(16, 4),
    )  # fmt: skip


def binary_model() -> Any:
    model = float_model()
    sw.binarize_(model, output_scale=sw.fan_in_scale)
    return model.eval()


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("kind", "arguments", "options", "shape"), KINDS)
def test_a_packed_layer_gives_the_outputs_of_the_binary_one(
    kind: type[nn.Module], arguments: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...], scaled: bool
) -> None:
    how: dict[str, Any] = {"method": sw.ScaledSign(), "output_scale": 0.25} if scaled else {}
    layer = binary(kind, arguments, options, **how)
    examples = torch.randn(shape)
    with torch.no_grad():
        expected = layer(examples)
        pack_(layer)
        assert isinstance(layer, PackedLayer)
        torch.testing.assert_close(layer(examples), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "arguments", "options", "shape"), KINDS)
def test_the_state_dict_holds_one_bit_per_weight_and_loads_into_a_fresh_model(
    kind: type[nn.Module], arguments: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    layer, fresh = binary(kind, arguments, options), binary(kind, arguments, options)
    latents = torch.randn_like(layer.weight)
    layer.load_state_dict({**layer.state_dict(), "weight": latents})
    rows = latents.shape[0]
    pack_(layer)
    pack_(fresh)
    state = layer.state_dict()
    assert "weight" not in state and state["bits"].dtype == torch.uint8
    assert state["bits"].numel() == rows * -(-latents[0].numel() // 8)
    examples = torch.randn(shape)
    fresh(examples)
    fresh.load_state_dict(state)
    assert torch.equal(fresh(examples), layer(examples))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("kind", "arguments", "options", "shape"), KINDS)
def test_a_packed_layer_loads_into_a_float_layer(
    kind: type[nn.Module], arguments: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...], scaled: bool
) -> None:
    how: dict[str, Any] = {"method": sw.ScaledSign(), "output_scale": 0.25} if scaled else {}
    packed, fresh = binary(kind, arguments, options, **how), kind(*arguments, **options)
    pack_(packed)
    report = load_packed_(fresh, packed.state_dict())
    assert type(fresh) is type(packed) and report.layers == ("",) and not fresh.training
    examples = torch.randn(shape)
    assert torch.equal(fresh(examples), packed(examples))


def test_training_mode_and_gradients_are_refused() -> None:
    model = binary_model()
    pack_(model)
    examples = torch.randn(2, 3, 6, 6)
    model(examples)
    with pytest.raises(sw.SignwiseError, match="packed layers are for inference and have no gradient"):
        model(examples).sum().backward()
    with pytest.raises(sw.SignwiseError, match=r"call model\.eval\(\) first"):
        model.train()(examples)


def test_an_input_of_the_wrong_size_is_named() -> None:
    model = binary_model()
    pack_(model)
    with pytest.raises(sw.SignwiseError, match="the input has 5 features, the layer takes 288"):
        model[6](torch.zeros(1, 5))
    with pytest.raises(sw.SignwiseError, match="the layer takes 8 channels"):
        model[3](torch.zeros(1, 5, 6, 6))


def test_copies_and_pickles_of_a_packed_model_give_the_same_outputs() -> None:
    model = binary_model()
    pack_(model)
    examples = torch.randn(2, 3, 6, 6)
    expected = model(examples)
    assert torch.equal(copy.deepcopy(model)(examples), expected)
    assert torch.equal(pickle.loads(pickle.dumps(model))(examples), expected)


def test_bits_that_change_in_place_are_noticed() -> None:
    layer = binary(nn.Linear, (16, 4), {"bias": False})
    pack_(layer)
    examples = torch.randn(3, 16)
    before = layer(examples)
    layer.bits.bitwise_not_()
    torch.testing.assert_close(layer(examples), -before)


def test_other_precisions_work() -> None:
    model = binary_model()
    examples = torch.randn(2, 3, 6, 6)
    pack_(model)
    expected = model(examples)
    found = model.double()(examples.double())
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.float(), expected, rtol=1e-4, atol=1e-4)


def test_inference_mode_works() -> None:
    with torch.inference_mode():
        model = binary_model()
        pack_(model)
        examples = torch.randn(2, 3, 6, 6)
        assert torch.equal(model(examples), model(examples))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("kind", "arguments", "options", "shape"), KINDS)
def test_the_weight_of_a_packed_layer_is_the_one_it_computes_with(
    kind: type[nn.Module], arguments: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    layer = binary(kind, arguments, options, method=sw.ScaledSign())
    expected = layer.effective_weight().detach()
    pack_(layer)
    torch.testing.assert_close(layer.weight, expected)
    assert layer.weight.dtype == torch.float32 and "weight" not in layer.state_dict()
    assert layer.double().weight.dtype == torch.float64 and layer.weight.device == layer.bits.device


def test_a_function_in_place_may_follow_a_packed_layer_while_gradients_are_on() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)).eval()
    sw.binarize_(model)
    inputs = torch.randn(2, 3, 6)
    expected = model(inputs).detach()
    pack_(model)
    torch.testing.assert_close(model(inputs).detach(), expected)


def test_a_padding_that_changed_after_construction_counts() -> None:
    layer = binary(nn.Conv2d, (3, 5, 3), {"padding": 1})
    layer.padding, layer.dilation = (2, 4), (2, 4)
    examples = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        expected = layer(examples)
        pack_(layer)
        torch.testing.assert_close(layer(examples), expected, rtol=1e-5, atol=1e-5)


def test_a_state_dict_of_the_other_form_names_the_way_to_load_it() -> None:
    packed, plain = binary_model(), binary_model()
    pack_(packed)
    with pytest.raises(RuntimeError, match=r"3\.bits belongs to a packed model.*signwise\.load_packed_"):
        plain.load_state_dict(packed.state_dict())
    with pytest.raises(RuntimeError, match=r"3\.weight belongs to a model before pack_"):
        packed.load_state_dict(plain.state_dict())
