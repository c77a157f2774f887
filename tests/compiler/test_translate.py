"""However a model is written, its program computes the same, or the refusal names the operator and says why."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import signwise as sw
from signwise.compiler import compile  # noqa: A004
from signwise.program import Program
from signwise.program import operations as ops

IMAGE = (3, 9, 8)
Forward = Callable[[Any, Tensor], Any]


class Code(nn.Module):
    """A model whose forward is the given function of the image and some layers."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.code = forward
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.other = nn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 4)
        self.act = nn.GELU()
        assert self.norm.running_mean is not None
        nn.init.normal_(self.norm.running_mean)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: Tensor) -> Any:
        return self.code(self, x)


def check(model: nn.Module, shape: tuple[int, ...] = IMAGE, kinds: list[str] | None = None) -> Program:
    """The compiled model gives the outputs of the model itself, for a batch size that the compiler never saw."""
    model.eval()
    program = compile(model, torch.randn(1, *shape))
    examples = torch.randn(3, *shape)
    with torch.no_grad():
        expected = model(examples).numpy()
    found = program.reference(examples.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    if kinds is not None:
        assert [operation.kind for operation in program.ops] == kinds
    return program


WAYS: dict[str, tuple[Forward, list[str] | None]] = {
    "modules": (lambda m, x: m.norm(m.conv(x)), ["conv"]),
    "functional relu": (lambda m, x: F.relu(m.norm(m.conv(x))), ["conv"]),
    "method relu": (lambda m, x: m.norm(m.conv(x)).relu(), ["conv"]),
    "clamp": (lambda m, x: m.conv(x).clamp(min=0), ["conv"]),
    "relu in place": (lambda m, x: m.conv(x).relu_() + 1, ["conv", "affine"]),
    "relu twice": (lambda m, x: F.relu(F.relu(m.conv(x))), ["conv"]),
    "residual": (lambda m, x: F.relu(m.norm(m.other(m.conv(x))) + m.conv(x)), ["conv", "conv", "conv"]),
    "residual first": (lambda m, x: (lambda y: F.relu(y + m.other(y)))(m.conv(x)), ["conv", "conv"]),
    "residual in place": (lambda m, x: (lambda y: m.other(y).add_(y).relu_())(m.conv(x)), ["conv", "conv"]),
    "value added to itself": (lambda m, x: (lambda y: y + y)(m.conv(x)), ["conv", "add"]),
    "read again after relu": (lambda m, x: (lambda y: m.other(F.relu(y)) + y)(m.conv(x)), ["conv", "relu", "conv"]),
    "layer called twice": (lambda m, x: m.other(F.relu(m.other(m.conv(x)))), ["conv", "conv", "conv"]),
    "norm before layer": (lambda m, x: m.other(F.relu(m.norm(m.conv(x) + m.conv(x)))), None),
    "norm twice": (lambda m, x: m.norm(m.norm(m.conv(x))), ["conv"]),
    "norm after relu": (lambda m, x: m.norm(F.relu(m.conv(x))), ["conv", "affine"]),
    "standardized": (lambda m, x: m.conv((x / 255 - 0.5) / 0.25), ["affine", "conv"]),
    "scaled": (lambda m, x: 2 * m.conv(3 - x) * 0.5, ["affine", "conv"]),
    "max pool": (lambda m, x: F.max_pool2d(m.conv(x), 2), ["conv", "maxpool"]),
    "max pool, rounding up": (lambda m, x: F.max_pool2d(m.conv(x), 2, ceil_mode=True), ["conv", "maxpool"]),
    "max pool, padded": (lambda m, x: F.max_pool2d(m.conv(x), 3, 2, 1), ["conv", "maxpool"]),
    "relu after pool": (lambda m, x: F.relu(F.max_pool2d(m.conv(x), 2)), ["conv", "maxpool"]),
    "norm after pool": (lambda m, x: F.relu(m.norm(F.max_pool2d(m.conv(x), 2))), ["conv", "maxpool", "affine"]),
    "average pool": (lambda m, x: F.avg_pool2d(x, 3, 2, 1), ["avgpool"]),
    "average pool, not counting": (lambda m, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), ["avgpool"]),
    "average pool, rounding up": (lambda m, x: F.avg_pool2d(x, 2, ceil_mode=True), ["avgpool"]),
    "adaptive pool to a part": (lambda m, x: F.adaptive_avg_pool2d(x, (3, 2)), ["avgpool"]),
    "global pool": (
        lambda m, x: m.head(F.adaptive_avg_pool2d(m.conv(x), 1).flatten(1)),
        ["conv", "globalpool", "dense"],
    ),
    "mean": (lambda m, x: m.head(m.conv(x).mean((2, 3))), ["conv", "globalpool", "dense"]),
    "mean, negative": (lambda m, x: m.head(m.conv(x).mean([-1, -2])), ["conv", "globalpool", "dense"]),
    "mean kept, then view": (
        lambda m, x: m.head(m.conv(x).mean((2, 3), keepdim=True).view(x.size(0), -1)),
        ["conv", "globalpool", "dense"],
    ),
    "squeeze": (lambda m, x: F.adaptive_avg_pool2d(x, 1).squeeze(3).squeeze(2), ["globalpool"]),
    "squeeze all": (lambda m, x: F.adaptive_avg_pool2d(x, 1).squeeze(), ["globalpool"]),
    "view": (lambda m, x: x.view(x.size(0), -1), ["flatten"]),
    "reshape": (lambda m, x: x.reshape(x.shape[0], 3 * 9 * 8), ["flatten"]),
    "torch.flatten": (lambda m, x: torch.flatten(x, 1), ["flatten"]),
    "flatten twice": (lambda m, x: x.flatten(1).flatten(1), ["flatten"]),
    "cat": (lambda m, x: torch.cat([x, m.conv(x)], dim=1), ["conv", "concat"]),
    "cat, negative": (lambda m, x: torch.cat([x, m.conv(x)], dim=-3), ["conv", "concat"]),
    "channel padding": (lambda m, x: F.pad(x, (0, 0, 0, 0, 1, 2)), ["pad_channels"]),
    "image padding": (lambda m, x: m.conv(F.pad(x, (1, 0, 2, 1))), ["conv"]),
    "dropout and identity": (lambda m, x: F.dropout(nn.Identity()(x), 0.5, m.training) + 1, ["affine"]),
    "softmax": (lambda m, x: m.head(m.conv(x).mean((2, 3))).softmax(-1), ["conv", "globalpool", "dense", "softmax"]),
    "contiguous": (lambda m, x: m.conv(x.contiguous(memory_format=torch.channels_last)), ["conv"]),
    "weights computed from weights": (lambda m, x: F.conv2d(x, m.conv.weight * 2 - 1), ["conv"]),
    "unused result": (lambda m, x: (m.other(m.conv(x)), m.conv(x))[1], ["conv"]),
    "condition on the input": (lambda m, x: torch.where(x > 0.25, x, -x), None),
    "conditions together": (lambda m, x: ((x > 0) & (x <= 1) | ~(x >= -1)).float() - (x == 0).float(), None),
    "two constants by a condition": (lambda m, x: torch.where(x < 0, 2.0, torch.full((9, 8), -3.0)), None),
    "filled by a condition": (lambda m, x: x.masked_fill(x != x.abs(), 0.5), None),
    # Never a whole row, which would be NaN in PyTorch.
    "masked by a condition": (lambda m, x: x.masked_fill(x < x.mean(-1, True), -math.inf).softmax(-1), None),
    "kept by a condition": (lambda m, x: torch.where(x >= x.mean(-1, True), x, -math.inf).softmax(-1), None),
    "numbers as a condition": (lambda m, x: x * F.relu(x).bool(), None),
    "indices": (lambda m, x: x[:, [2, 0]][:, :, torch.tensor([1, 2, 3])], None),
    "indices with a batch": (lambda m, x: x[torch.arange(x.shape[0])[:, None], torch.tensor([[0, 2]])], None),
    "full slice": (lambda m, x: x[:, :] + 1, ["affine"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_model_compiles_however_it_is_written(way: str) -> None:
    code, kinds = WAYS[way]
    check(Code(code), kinds=kinds)


def test_same_padding_and_grouped_dilated_convolutions() -> None:
    check(nn.Sequential(nn.Conv2d(3, 6, 4, padding="same"), nn.Conv2d(6, 4, 3, dilation=2, groups=2, stride=(1, 2))))
    check(nn.Sequential(nn.ZeroPad2d(1), nn.Conv2d(3, 6, 3, padding="valid")))


def test_vectors() -> None:
    norm = nn.BatchNorm1d(6)
    assert norm.running_mean is not None
    nn.init.normal_(norm.running_mean)
    model = nn.Sequential(nn.Linear(7, 6), norm, nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(6, 6), nn.Softmax(1))
    check(model, (7,), ["dense", "dense", "softmax"])


def test_a_positive_norm_after_a_max_pool_moves_into_the_layer() -> None:
    model = Code(lambda m, x: F.relu(m.norm(F.max_pool2d(m.conv(x), 2))))
    nn.init.uniform_(model.norm.weight, 0.1, 1)
    program = check(model, kinds=["conv", "maxpool"])
    assert isinstance(program.ops[0], ops.Conv) and program.ops[0].relu


def test_binary_layers_with_scales_and_biases_are_packed() -> None:
    model = Code(lambda m, x: m.head(F.relu(m.other(F.relu(m.norm(m.conv(x)))) + m.conv(x)).mean((2, 3))))
    sw.binarize_(model, skip=None, method=sw.ScaledSign(), output_scale=0.5)
    program = check(model)
    assert [operation.bits for operation in program.ops if isinstance(operation, ops.Weighted)] == [1, 1, 1, 1]
    assert program.tensors["other.weight"].dtype == np.uint8
    assert sum(name.startswith("conv.weight") for name in program.tensors) == 1, "two calls share their bits"


def test_a_packed_model_gives_the_program_of_the_binary_one() -> None:
    model = Code(lambda m, x: m.head(F.relu(m.norm(m.other(F.relu(m.conv(x))))).mean((2, 3))))
    sw.binarize_(model, skip=None, output_scale=0.5)
    expected = compile(model, torch.zeros(1, *IMAGE))
    sw.pack_(model)
    assert compile(model, torch.zeros(1, *IMAGE)).encode() == expected.encode()


REFUSED: dict[str, tuple[Forward, str]] = {
    "unknown operator": (lambda m, x: m.act(m.conv(x)).cumprod(1), r"cumprod in the model \(Code\): sw.compile has no"),
    "mean of the batch": (lambda m, x: x - x.mean(0), "not one for each example"),
    "data in control flow": (lambda m, x: x if x.sum() > 0 else -x, "torch.export cannot read this model"),
    "batch size in code": (lambda m, x: x.view(2, -1), "torch.export cannot read this model|not one for each example"),
    "constant": (lambda m, x: torch.ones(2, 3), "an output that does not depend on the input"),
    "half": (lambda m, x: m.conv(x).half(), "float16, not float32"),
    "indices across examples": (lambda m, x: x[[1, 0]], "across the examples|not one for each"),
    "batch not first": (lambda m, x: x.transpose(0, 1), "where the batch is not first"),
    "differs between examples": (
        lambda m, x: x + torch.arange(x.shape[0]).view(-1, 1, 1, 1), "differs between the examples",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", REFUSED)
def test_what_a_program_cannot_express_is_refused_with_a_way_out(way: str) -> None:
    code, message = REFUSED[way]
    with pytest.raises(sw.SignwiseError, match=f"(?s)({message}).*signwise.pack_"):
        compile(Code(code), torch.randn(2, *IMAGE))


def test_statistics_of_the_batch_are_refused() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False))
    with pytest.raises(sw.SignwiseError, match=r"in module '1' \(BatchNorm2d\).*pack_"):
        compile(model, torch.zeros(2, *IMAGE))


def test_the_weight_of_a_binary_layer_cannot_be_read_past_the_layer() -> None:
    model = Code(lambda m, x: F.conv2d(x, m.conv.weight * 2))
    sw.binarize_(model, skip=None, output_scale=0.5)
    with pytest.raises(sw.SignwiseError, match="reads the weight of a binary layer directly"):
        compile(model, torch.zeros(1, *IMAGE))
