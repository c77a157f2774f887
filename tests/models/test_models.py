"""The models have exactly the sizes that are documented, and the tools that follow can trace them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import signwise as sw
from signwise import models

INPUT_SHAPES = {name: (1, 28, 28) if name in ("lenet5", "tiny_cnn") else (3, 32, 32) for name in models.MODELS}

every_model = pytest.mark.parametrize("name", models.MODELS)


@pytest.mark.parametrize(
    ("name", "binary_weights"),
    [
        ("lenet5", 425_500),
        ("vgg_small", 4_571_136),
        ("resnet18", 10_985_472),
        ("wrn28_10", 36_264_960),
        ("resnet20", 267_264),
        ("vgg_fast", 1_967_616),
        ("tiny_cnn", 46_080),
        ("resnet8", 73_728),
    ],
)
@pytest.mark.parametrize("num_classes", [10, 100])
def test_as_many_weights_become_binary_as_documented(name: str, binary_weights: int, num_classes: int) -> None:
    with torch.device("meta"):
        model = models.MODELS[name](num_classes=num_classes)
        sw.binarize_(model, skip=sw.last if name == "lenet5" else sw.first_and_last)
    assert sum(layer.weight.numel() for _, layer in sw.binary_layers(model)) == binary_weights


# Parameters: the first layer, the binary weights, two numbers per channel of each norm, the last layer with its biases.
# Multiply-adds: the weights of each resolution times its pixels.
@pytest.mark.parametrize(
    ("name", "parameters", "multiply_adds"),
    [
        ("lenet5", 425_500 + 2 * 570 + 5_010, 500 * 24**2 + 25_000 * 8**2 + 400_000 + 5_000),
        (
            "vgg_small",
            3_456 + 4_571_136 + 2 * 1_792 + 81_930,
            150_912 * 32**2 + 884_736 * 16**2 + 3_538_944 * 8**2 + 81_920,
        ),
        (
            "resnet18",
            1_728 + 10_985_472 + 2 * 3_904 + 5_130,
            149_184 * 32**2 + 516_096 * 16**2 + 2_064_384 * 8**2 + 8_257_536 * 4**2 + 5_120,
        ),
        (
            "wrn28_10",
            1_728 + 36_264_960 + 2 * 9_024 + 6_410,
            1_706_688 * 32**2 + 6_912_000 * 16**2 + 27_648_000 * 8**2 + 6_400,
        ),
        ("resnet20", 432 + 267_264 + 2 * 688 + 650, 14_256 * 32**2 + 50_688 * 16**2 + 202_752 * 8**2 + 640),
        ("resnet8", 432 + 73_728 + 2 * 240 + 650, (432 + 4_608) * 32**2 + 13_824 * 16**2 + 55_296 * 8**2 + 640),
        (
            "vgg_fast",
            312 + 1_967_616 + 2 * 1_152 + 2_570,
            (288 + 13_824) * 31**2 + (36_864 + 147_456) * 15**2 + 2 * 589_824 * 7**2 + 589_824 * 3**2 + 2_560,
        ),
        (
            "tiny_cnn",
            144 + 46_080 + 2 * 160 + 650,
            144 * 26**2 + 4_608 * 11**2 + 13_824 * 5**2 + 27_648 * 3**2 + 640,
        ),
    ],
)
def test_parameters_and_multiply_adds_are_those_of_the_architecture(
    name: str, parameters: int, multiply_adds: int
) -> None:
    with torch.device("meta"):
        model = models.MODELS[name]().eval()
        counted = 0

        def count(layer: nn.Conv2d | nn.Linear, _: object, output: torch.Tensor) -> None:
            nonlocal counted
            counted += layer.weight.numel() * output[0, 0].numel()

        for layer in model.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.register_forward_hook(count)
        model(torch.empty(1, *INPUT_SHAPES[name]))
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert counted == multiply_adds


@every_model
@pytest.mark.parametrize("num_classes", [10, 100])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_output_has_one_score_per_class(name: str, num_classes: int, batch: int) -> None:
    with torch.device("meta"):
        model = models.MODELS[name](num_classes=num_classes).eval()
        assert model(torch.empty(batch, *INPUT_SHAPES[name])).shape == (batch, num_classes)


@every_model
def test_only_the_last_layer_has_a_bias_besides_the_norms(name: str) -> None:
    with torch.device("meta"):
        model = models.MODELS[name]()
    weighted = [module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    # The whitening layer has no norm behind it, and its bias is all that it learns.
    first = isinstance(weighted[0], models.PatchWhitening)
    assert [layer.bias is not None for layer in weighted] == [first] + [False] * (len(weighted) - 2) + [True]


@every_model
def test_torch_fx_traces_it(name: str) -> None:
    torch.manual_seed(0)
    model = models.MODELS[name]().eval()
    images = torch.randn(2, *INPUT_SHAPES[name])
    traced = torch.fx.symbolic_trace(model)
    with torch.no_grad():
        assert torch.equal(traced(images), model(images))


@pytest.mark.parametrize("name", ["lenet5", "resnet20"])
def test_torch_export_takes_it_with_any_batch(name: str) -> None:
    torch.manual_seed(0)
    model = models.MODELS[name]().eval()
    images = torch.randn(4, *INPUT_SHAPES[name])
    exported = torch.export.export(model, (images,), dynamic_shapes=({0: torch.export.Dim("batch")},)).module()
    with torch.no_grad():
        for batch in (images, images[:2]):
            assert torch.allclose(exported(batch), model(batch), atol=1e-6)


@pytest.mark.parametrize("name", ["lenet5", "resnet20"])
def test_every_parameter_learns(name: str) -> None:
    torch.manual_seed(0)
    model = models.MODELS[name]()
    loss = nn.functional.cross_entropy(model(torch.randn(8, *INPUT_SHAPES[name])), torch.arange(8))
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())
