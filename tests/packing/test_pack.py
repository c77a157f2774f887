from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import signwise as sw
from signwise.packing import PackedConv2d, PackedLayer, PackedLinear, pack_

KINDS = [
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


def binary(kind, arguments, options, **how):
    torch.manual_seed(0)
    layer = kind(*arguments, **options)
    sw.binarize_(layer, skip=None, **how)
    return layer.eval()


def network():
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(8 * 36, 16), nn.ReLU(), nn.Linear(16, 4),
    ]  # fmt: skip
    model = nn.Sequential(*layers)
    sw.binarize_(model, output_scale=sw.fan_in_scale)
    return model.eval()


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("kind", "arguments", "options", "shape"), KINDS)
def test_a_packed_layer_answers_as_the_binary_one(kind, arguments, options, shape, scaled):
    how = {"method": sw.ScaledSign(), "output_scale": 0.25} if scaled else {}
    layer = binary(kind, arguments, options, **how)
    examples = torch.randn(shape)
    with torch.no_grad():
        expected = layer(examples)
        pack_(layer)
        assert isinstance(layer, PackedLayer)
        torch.testing.assert_close(layer(examples), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "arguments", "options", "shape"), KINDS)
def test_the_state_dict_holds_one_bit_a_weight_and_loads_into_a_fresh_model(kind, arguments, options, shape):
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


def test_a_model_keeps_its_code_and_its_float_layers():
    model = network()
    examples = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        expected = model(examples)
        report = pack_(model)
        torch.testing.assert_close(model(examples), expected, rtol=1e-4, atol=1e-4)
    assert report.layers == ("3", "6") and type(model[3]) is PackedConv2d and type(model[6]) is PackedLinear
    assert type(model[0]) is nn.Conv2d and type(model[8]) is nn.Linear
    assert report.weights == 8 * 72 + 16 * 288 and report.bytes_before == 4 * report.weights
    assert report.bytes_packed == report.weights // 8


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_latent_without_a_sign_is_refused_by_the_name_of_its_layer_and_nothing_is_packed(number):
    model = network()
    with torch.no_grad():
        model[6].weight[1, 2] = number
    with pytest.raises(sw.SignwiseError, match=r"^6: a latent weight is NaN or infinite"):
        pack_(model)
    assert isinstance(model[3], sw.BinaryConv2d)


def test_a_subclass_with_code_of_its_own_is_refused():
    class Doubled(sw.BinaryLinear):
        def forward(self, input):
            return 2 * super().forward(input)

    with pytest.raises(sw.SignwiseError, match="0 is a Doubled with code of its own"):
        pack_(nn.Sequential(Doubled(4, 4)))


def test_training_mode_and_gradients_are_refused():
    model = network()
    pack_(model)
    examples = torch.randn(2, 3, 6, 6)
    model(examples)
    with pytest.raises(sw.SignwiseError, match="packed layers are for inference and have no gradient"):
        model(examples).sum().backward()
    with pytest.raises(sw.SignwiseError, match=r"call model\.eval\(\) first"):
        model.train()(examples)


def test_an_input_of_the_wrong_size_is_named():
    model = network()
    pack_(model)
    with pytest.raises(sw.SignwiseError, match="the input has 5 features, the layer 288"):
        model[6](torch.zeros(1, 5))
    with pytest.raises(sw.SignwiseError, match="the layer 8 channels"):
        model[3](torch.zeros(1, 5, 6, 6))


def test_copies_and_pickles_of_a_packed_model_answer_alike():
    model = network()
    pack_(model)
    examples = torch.randn(2, 3, 6, 6)
    expected = model(examples)
    assert torch.equal(copy.deepcopy(model)(examples), expected)
    assert torch.equal(pickle.loads(pickle.dumps(model))(examples), expected)


def test_bits_that_change_in_place_are_noticed():
    layer = binary(nn.Linear, (16, 4), {"bias": False})
    pack_(layer)
    examples = torch.randn(3, 16)
    before = layer(examples)
    layer.bits.bitwise_not_()
    torch.testing.assert_close(layer(examples), -before)


def test_other_precisions_work():
    model = network()
    examples = torch.randn(2, 3, 6, 6)
    pack_(model)
    expected = model(examples)
    found = model.double()(examples.double())
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.float(), expected, rtol=1e-4, atol=1e-4)


def test_inference_mode_works():
    with torch.inference_mode():
        model = network()
        pack_(model)
        examples = torch.randn(2, 3, 6, 6)
        assert torch.equal(model(examples), model(examples))


def test_operators_keep_their_promises_to_pytorch():
    layer = binary(nn.Conv2d, (3, 5, 3), {"padding": 1})
    pack_(layer)
    arguments = (torch.randn(2, 3, 6, 7), layer.bits, None, layer.bias, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1)
    torch.library.opcheck(torch.ops.signwise.packed_conv2d.default, arguments)
    layer = binary(nn.Linear, (9, 5), {})
    pack_(layer)
    torch.library.opcheck(torch.ops.signwise.packed_linear.default, (torch.randn(2, 9), layer.bits, None, layer.bias))


@pytest.mark.filterwarnings("ignore")
def test_export_sees_the_operators_with_a_free_batch_size():
    model = network()
    pack_(model)
    batch = torch.export.Dim("batch")
    exported = torch.export.export(model, (torch.randn(2, 3, 6, 6),), dynamic_shapes=({0: batch},))
    targets = [str(node.target) for node in exported.graph.nodes]
    assert "signwise.packed_conv2d.default" in targets and "signwise.packed_linear.default" in targets
    examples = torch.randn(5, 3, 6, 6)
    torch.testing.assert_close(exported.module()(examples), model(examples))


@pytest.mark.filterwarnings("ignore")
def test_compile_takes_the_whole_model_as_one_graph():
    model = network()
    pack_(model)
    examples = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(examples), model(examples))
