"""compile's own part: its arguments, the evaluation form of a model, and what goes into the file's text."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import signwise as sw
from signwise.compiler import compile  # noqa: A004

IMAGE = (3, 9, 8)


def small_model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(OrderedDict(conv=nn.Conv2d(3, 6, 3, padding=1), norm=nn.BatchNorm2d(6)))


def small_classifier() -> tuple[nn.Module, Tensor, Tensor]:
    """A model of 3 classes, and images with labels of which it gets a tenth wrong."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    sw.binarize_(model, skip=sw.last)
    images = torch.randn(50, 6)
    with torch.no_grad():
        labels = model.eval()(images).argmax(1)
    labels[:5] = (labels[:5] + 1) % 3
    return model, images, labels


def test_tensors_are_named_after_their_modules() -> None:
    program = compile(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), torch.zeros(1, *IMAGE))
    assert list(program.tensors) == ["0.bias", "0.scale", "0.weight"]


def test_the_model_does_not_change() -> None:
    model = small_model()
    sw.binarize_(model, skip=None)
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    compile(model, torch.zeros(1, *IMAGE))
    assert model.training and isinstance(model.conv, sw.BinaryConv2d)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_latent_without_a_sign_is_refused_by_name() -> None:
    model = small_model()
    sw.binarize_(model, skip=None)
    with torch.no_grad():
        model.conv.weight[0, 0, 0, 0] = float("nan")
    with pytest.raises(sw.SignwiseError, match=r"^conv: a latent weight is NaN"):
        compile(model, torch.zeros(1, *IMAGE))


def test_a_norm_with_broken_statistics_is_refused_by_name() -> None:
    model = small_model()
    assert model.norm.running_var is not None
    model.norm.running_var[2] = float("nan")
    with pytest.raises(sw.SignwiseError, match=r"'conv\.(bias|scale)' holds a number that is not finite"):
        compile(model, torch.zeros(1, *IMAGE))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"activations": "int4"}, "activations must be 'float32' or 'int8', got 'int4'"),
        ({"activations": "int8"}, "needs calibrate="),
        ({"activations": "int8", "calibrate": torch.zeros(0, *IMAGE)}, "at least one example"),
        ({"activations": "int8", "calibrate": torch.full((1, *IMAGE), torch.inf)}, "not finite"),
        ({"activations": "int8", "calibrate": torch.zeros(2, 3, 4, 4)}, "must have shape"),
        ({"validate": (torch.zeros(3, *IMAGE), torch.zeros(2))}, "as many labels as images are needed, got 2 and 3"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    model = nn.Sequential(nn.ReLU(), nn.Conv2d(3, 6, 3))
    sw.binarize_(model, skip=None)
    with pytest.raises(sw.SignwiseError, match=message):
        compile(model, torch.zeros(1, *IMAGE), **arguments)


def test_the_error_is_measured_and_noted() -> None:
    model, images, labels = small_classifier()
    program = compile(model, images, "int8", calibrate=images, validate=(images, labels), about={"dataset": "made up"})
    assert program.about["error with float32 activations"] == "10.00 % of 50 examples"
    assert program.about["error"].endswith("% of 50 examples") and program.about["dataset"] == "made up"
    assert program.about["activations"] == "int8, calibrated on 50 examples"
    plain = compile(model, images, validate=(images, labels))
    assert plain.about["error"] == "10.00 % of 50 examples"


def test_int8_is_short_for_quantize_and_narrow_for_six_bit_inputs() -> None:
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3))
    sw.binarize_(model, skip="0")
    images = torch.randn(8, *IMAGE)
    floats = compile(model, images)
    for six_bits in (True, False):
        expected = floats.quantize(images.numpy(), six_bit_inputs=six_bits).encode()
        assert compile(model, images, "int8", calibrate=images, six_bit_inputs=six_bits).encode() == expected
        assert compile(model, images, "int8", calibrate=images, narrow=six_bits).encode() == expected


def test_a_binary_layer_with_code_of_its_own_is_refused() -> None:
    class Doubled(sw.BinaryLinear):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * super().forward(input)

    with pytest.raises(sw.SignwiseError, match="0 is a Doubled with code of its own, which compile would lose"):
        compile(nn.Sequential(Doubled(4, 4)), torch.zeros(1, 4))


@pytest.mark.parametrize("shape", [(), (3,), (0, 3, 9, 8)])
def test_an_example_without_examples_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(sw.SignwiseError, match="example_input must be a batch"):
        compile(nn.ReLU(), torch.zeros(shape))


def test_inputs_that_the_model_does_not_take_are_refused() -> None:
    pair = (torch.zeros(1, 3), torch.zeros(1, 3))
    with pytest.raises(sw.SignwiseError, match=r"the model does not take example_input, of shape \[1, 3\] float32"):
        compile(nn.Linear(3, 2), pair)
    with pytest.raises(sw.SignwiseError, match="all inputs must have as many examples"):
        compile(nn.Linear(3, 2), (torch.zeros(1, 3), torch.zeros(2, 3)))
    wrong: Any = [1, 2]
    with pytest.raises(sw.SignwiseError, match="example_input must be a tensor or array, got list"):
        compile(nn.Linear(3, 2), wrong)


def test_a_refused_example_leaves_nothing_on_standard_error() -> None:
    # In a process of its own: PyTorch's loggers keep the standard error that they found when they were made.
    code = """
import torch, signwise as sw
from torch import nn
try:
    sw.compile(nn.Sequential(nn.Flatten(), nn.Linear(8, 2)), torch.zeros(1, 3, 4))
except sw.SignwiseError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "the model does not take example_input, of shape [1, 3, 4]" in done.stdout
    assert done.stderr == ""
