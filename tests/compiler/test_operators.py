"""Operators that take several operations of a program: each computes what PyTorch does, on numbers of any sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import signwise as sw
from signwise.program import Program
from signwise.program import operations as ops

IMAGE, TOKENS, VECTOR, SQUARE, VOLUME = (4, 8, 8), (6, 8), (8,), (6, 6), (2, 4, 5, 6)
Shape = tuple[int, ...]


class Code(nn.Module):
    """A model whose forward is the given function of its inputs and some layers."""

    def __init__(self, forward: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.code, self.layers = forward, nn.ModuleList(layers)

    def forward(self, *inputs: Tensor) -> Any:
        return self.code(*inputs, *self.layers)


def check(model: nn.Module, *examples: Tensor, bound: float = 1e-5) -> Program:
    """The program gives the model's outputs, for another batch size than the compiler saw, after a file."""
    program = Program.decode(sw.compile(model.eval(), tuple(part[:1] for part in examples)).encode())
    with torch.no_grad():
        expected = model(*examples)
    found: Any = program(*(part.numpy() for part in examples))
    for made, wanted in zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, (tuple, list)) else (expected,),
        strict=True,
    ):
        numbers = wanted.numpy().astype(np.float64)
        assert made.shape == numbers.shape
        np.testing.assert_allclose(made, numbers, rtol=0, atol=bound * max(1, np.abs(numbers).max()))
    return program


def constant(*shape: int) -> Tensor:
    return torch.linspace(-1, 2, int(np.prod(shape))).reshape(shape)


def written(x: Tensor, y: Any, *where: Any) -> Tensor:
    """x[where] = y."""
    x = x.clone()
    x[where] = y
    return x


def places(x: Tensor) -> Tensor:
    """Whole numbers from 0 to 7 that depend on x."""
    return (x.abs() * 2).clamp(max=7).long()


FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "sign": lambda x: torch.sign(x.relu() - x.abs() / 2 * (x > 1)),
    "ceil": lambda x: (3 * x).ceil(),
    "trunc": lambda x: (3 * x).trunc(),
    "frac": lambda x: (3 * x).frac(),
    "round": lambda x: (x * 4).floor().div(2).round(),  # many halves, which go to the even number
    "to whole numbers": lambda x: (3 * x).int() + (3 * x).long().float(),
    "floor division": lambda x: x // 0.75,
    "truncating division": lambda x: torch.div(x, 0.75, rounding_mode="trunc"),
    "remainder": lambda x: x % 0.75,
    "fmod": lambda x: torch.fmod(x, 0.75),
    "expm1, exp2": lambda x: x.expm1() + x.exp2(),
    "logarithms": lambda x: x.abs().log1p() + (x.abs() + 0.5).log2() + (x.abs() + 0.5).log10(),
    "hyperbolic": lambda x: (x.sinh(), x.cosh(), x.clamp(-1, 1).tan()),
    "area": lambda x: (x.asinh(), (x.abs() + 1.1).acosh(), (x.tanh() * 0.9).atanh()),
    "erfc": lambda x: x.erfc(),
    "shrink": lambda x: (F.softshrink(x, 0.3), F.hardshrink(x, 0.3), F.tanhshrink(x), F.threshold(x, 0.1, 9)),
    "clamp to tensors": lambda x: x.clamp(torch.tensor(-0.5), constant(8).abs()),
    "hypot": lambda x: torch.hypot(x, x + 1),
    "logaddexp": lambda x: torch.logaddexp(x, 2 * x),
    "exclusive or": lambda x: ((x > 0) ^ (x > 1)).float() + torch.logical_xor(x > 0, x < 1),
    "variance and mean": lambda x: (*torch.var_mean(x, 1), *torch.std_mean(x, (1, 2), correction=0, keepdim=True)),
    "norms": lambda x: tuple(x.norm(order, dim=1) for order in (1, 2, 3, float("inf"), float("-inf"))),
    "logsumexp": lambda x: (x.logsumexp(1), (50 * x).logsumexp((1, 2), keepdim=True) / 50),
    "product": lambda x: (x.prod(1), x[..., :7].prod(-1, keepdim=True)),
    "cumulative sum": lambda x: (x.cumsum(1), x.cumsum(-1)),
    "all, any, count": lambda x: ((x > -2).all(1), (x > 1).any(2), torch.count_nonzero(x > 0, 1)),
    "largest, with places": lambda x: (*x.max(1), *x.min(2, keepdim=True), x.argmin(1)),
    "computing with places": lambda x: x.argmax(-1).float() * 0.5 + x.argmax(-1),
    "top": lambda x: (*x.topk(3), *x.topk(2, dim=1, largest=False)),
    "similarity": lambda x: F.cosine_similarity(x, x.flip(1), dim=2) + F.pairwise_distance(x, x.roll(1, 1)),
    "distances": lambda x: (torch.cdist(x, x[:, :3] + 1), torch.cdist(x, x[:, :3] + 1, p=1)),
    "losses": lambda x: (
        F.mse_loss(x, 2 * x, reduction="none"), F.l1_loss(x, 2 * x, reduction="none"),
        F.smooth_l1_loss(x, 2 * x, reduction="none"), F.huber_loss(x, 2 * x, reduction="none"),
        F.binary_cross_entropy_with_logits(x, x.sigmoid(), reduction="none"),
    ),
    "lerp, addcmul, addcdiv": lambda x: (
        torch.lerp(x, 2 * x, 0.3), torch.addcmul(x, x, x, value=0.5), torch.addcdiv(x, x, x.abs() + 1),
    ),
    "triangles": lambda x: (x.tril(), x.triu(1), x.diagonal(dim1=1, dim2=2), x.diagonal(-2, 2, 1)),
    "diagonal matrix": lambda x: torch.diag_embed(x),
    "stacks": lambda x: (torch.hstack([x, x]), torch.dstack([x, x])),
    "tile, repeat": lambda x: (x.tile((1, 2, 1)), x.repeat_interleave(3, dim=1)),
    "turned": lambda x: x.rot90(1, (1, 2)),
    "differences": lambda x: x.diff(dim=1),
    "windows": lambda x: (x.unfold(2, 4, 2), x.unfold(1, 3, 1)),
    "index_select": lambda x: x.index_select(1, torch.tensor([3, 0, 1, 1])),
    "indices along two dimensions": lambda x: x[:, torch.tensor([0, 3]), torch.tensor([1, -2])],
    "a table of indices": lambda x: x[:, torch.tensor([[0, 1], [2, 3]])],
    "constant gather": lambda x: x.gather(2, torch.tensor([[[3, 0, 1]]]).expand(x.shape[0], 6, 3)),
    "computed gather": lambda x: x.gather(2, places(x)[:, :4, :5]),
    "gather along the first": lambda x: x.gather(1, places(x).clamp(max=5)),
    "computed rows": lambda x: x[torch.arange(x.shape[0]), places(x)[:, :, 0].argmax(-1)],
    "computed rows from the end": lambda x: x[torch.arange(x.shape[0]), -1 - places(x)[:, 0, 0].clamp(max=5)],
    "one_hot": lambda x: F.one_hot(places(x), 8),
    "a constant by computed indices": lambda x: constant(8, 3)[places(x)],
    "an embedding of computed numbers": lambda x: F.embedding(places(x), constant(8, 3)),
    "flip": lambda x: x.repeat(1, 1, 10).flip(-1),
    "write a part": lambda x: (written(x, 0.0, slice(None), 0), written(x, x[:, 1:3] * 2, slice(None), slice(3, 5))),
    "write every second": lambda x: written(x, x[:, :3] + 1, slice(None), slice(0, None, 2)),
    "write into zeros": lambda x: written(x.new_zeros(x.shape[0], 9, 8), x, slice(None), slice(1, 7)),
    "factories": lambda x: (
        torch.cat([x, torch.ones_like(x), x.new_full((x.shape[0], 1, 8), 3.0)], 1) + x.new_ones(8),
        x + torch.zeros_like(x) * torch.full_like(x, 2) + torch.empty_like(x).fill_(2),
    ),
    "product with vectors": lambda x: (x @ constant(8), torch.inner(x, constant(3, 8))),
    "product from the left": lambda x: constant(5, 6) @ x,
    "tensordot, vecdot, cross": lambda x: (
        torch.tensordot(x, constant(8, 5), dims=1), torch.linalg.vecdot(x, 2 * x),
        torch.cross(x[..., :3], x[..., 3:6], 2),
    ),
    "baddbmm": lambda x: torch.baddbmm(x @ x.mT, x, x.mT),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_computes_what_pytorch_does(name: str) -> None:
    check(Code(FUNCTIONS[name]), torch.randn(3, *TOKENS, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize(
    "equation",
    [
        "btc->bct", "btc->bt", "btc->bc", "btc,bsc->bts", "btc,dc->btd", "...c,dc->...d", "btc,c->bt", "btc,btc->b",
        "btc,btc->bt", "btc,bt->bc", "btc,btc->btc", "btc,bsd->btsd", "bic,bjc,bjd->bid", "btc,cd,ed->bte",
        "b...->b...", "btt->bt", "btc", "btcpqr->brtpcq",
    ],
)  # fmt: skip
def test_a_sum_over_named_dimensions(equation: str) -> None:
    sizes = {"t": 4, "s": 3, "c": 5, "d": 2, "e": 6, "i": 3, "j": 4, "p": 2, "q": 3, "r": 2, ".": 4}
    operands = equation.split("->")[0].replace("...", ".").split(",")
    values = [
        torch.randn(3, *(sizes[letter] for letter in name.replace("b", "")))
        for name in operands
        if "b" in name or "." in name
    ]
    constants = [
        None if "b" in name or "." in name else constant(*(sizes[letter] for letter in name)) for name in operands
    ]

    def forward(*inputs: Tensor) -> Tensor:
        given = iter(inputs)
        return torch.einsum(equation, *(next(given) if fixed is None else fixed for fixed in constants))

    check(Code(forward), *values)


LAYERS: dict[str, tuple[Shape, Callable[[], nn.Module]]] = {
    "LSTM": (
        TOKENS, lambda: Code(lambda x, layer: layer(x)[0], nn.LSTM(8, 5, 2, batch_first=True, bidirectional=True)),
    ),
    "GRU": (TOKENS, lambda: Code(lambda x, layer: layer(x)[0], nn.GRU(8, 5, batch_first=True))),
    "RNN": (TOKENS, lambda: Code(lambda x, layer: layer(x)[0], nn.RNN(8, 5, batch_first=True))),
    "LSTMCell": (VECTOR, lambda: Code(lambda x, layer: layer(x)[1], nn.LSTMCell(8, 5))),
    "GRUCell": (VECTOR, lambda: Code(lambda x, layer: layer(x), nn.GRUCell(8, 5))),
    "TransformerDecoderLayer": (
        TOKENS,
        lambda: Code(lambda x, layer: layer(x, x.flip(1)), nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)),
    ),
    "Bilinear": (TOKENS, lambda: Code(lambda x, layer: layer(x, x + 1), nn.Bilinear(8, 8, 3))),
    "LocalResponseNorm": (IMAGE, lambda: nn.LocalResponseNorm(3)),
    "LPPool2d": (IMAGE, lambda: nn.LPPool2d(2, 2)),
    "Unfold": (IMAGE, lambda: nn.Unfold((3, 2), dilation=(2, 1), padding=1, stride=(2, 1))),
    "Fold": ((36, 16), lambda: nn.Fold((8, 8), 3, 1, 1, 2)),
    "MaxPool2d, dilated": (IMAGE, lambda: nn.MaxPool2d(3, 2, 1, dilation=2)),
    "MaxPool1d, dilated": ((4, 12), lambda: nn.MaxPool1d(2, dilation=3)),
    "AvgPool2d, divisor": (IMAGE, lambda: nn.AvgPool2d(3, 2, 1, divisor_override=5)),
    "AvgPool2d, rounding up": (IMAGE, lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True)),
    "MaxPool3d": (VOLUME, lambda: nn.MaxPool3d((2, 3, 2), padding=(1, 1, 0))),
    "AvgPool3d": (VOLUME, lambda: nn.AvgPool3d(2, 1, 1)),
    "Conv3d": (VOLUME, lambda: nn.Conv3d(2, 3, (3, 3, 2), (2, 1, 1), (1, 1, 0))),
    "Conv3d, same": (VOLUME, lambda: nn.Conv3d(2, 3, (2, 3, 3), padding="same", dilation=(2, 1, 1))),
    "bicubic": (IMAGE, lambda: nn.Upsample(scale_factor=1.5, mode="bicubic")),
    "bicubic, aligned": (IMAGE, lambda: nn.Upsample(size=(5, 11), mode="bicubic", align_corners=True)),
    "antialias": (IMAGE, lambda: Code(lambda x: F.interpolate(x, (3, 5), mode="bilinear", antialias=True))),
    "nearest-exact": (IMAGE, lambda: nn.Upsample(size=(5, 11), mode="nearest-exact")),
    "nearest, volume": (VOLUME, lambda: nn.Upsample(scale_factor=2)),
    "trilinear": (VOLUME, lambda: nn.Upsample(scale_factor=2, mode="trilinear")),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_computes_what_pytorch_does(name: str) -> None:
    torch.manual_seed(0)
    shape, build = LAYERS[name]
    check(build(), torch.randn(3, *shape))


def test_a_binary_convolution_over_volumes_stays_packed() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv3d(2, 3, (2, 3, 3)))
    sw.binarize_(model, skip=None)
    layers = [operation for operation in check(model, torch.randn(3, *VOLUME)).ops if isinstance(operation, ops.Conv)]
    assert [operation.bits for operation in layers] == [1, 1, 1]
    assert len({operation.weight for operation in layers}) == 1, "one weight for all images"


TOKEN_MODELS: dict[str, Callable[[Tensor, Any], Any]] = {
    "padding mask": lambda x, table: table(x) * (x != 1)[:, :, None],
    "mask before the table": lambda x, table: (x != 1).float().sum(1, keepdim=True) * table(x)[:, 0],
    "positions": lambda x, table: table((x != 1).int().cumsum(1)),
    "joined": lambda x, table: table(torch.cat([x, x.flip(1)], 1)),
    "repeated": lambda x, table: table(x[:, None].expand(-1, 2, -1).repeat(1, 1, 2)),
    "offset, scaled, bounded": lambda x, table: table((x + torch.arange(5)).clamp(0, 8)) + table(x * 2 // 2),
    "chosen": lambda x, table: table(torch.where(x > 3, x, 0)),
    "largest token": lambda x, table: table(x)[torch.arange(x.shape[0]), x.argmax(-1)],
    "first end": lambda x, table: table(x)[torch.arange(x.shape[0]), (x == 3).int().argmax(-1)],
    "gather": lambda x, table: table(x).gather(1, x[:, :1, None].clamp(max=4).expand(-1, -1, 4)),
    "weight by index": lambda x, table: table.weight[x],
    "one_hot": lambda x, table: F.one_hot(x, 9).float(),
}


@pytest.mark.parametrize("name", TOKEN_MODELS)
def test_tokens_can_be_looked_up_and_computed_with(name: str) -> None:
    torch.manual_seed(0)
    program = check(Code(TOKEN_MODELS[name], nn.Embedding(9, 4)), torch.randint(0, 9, (4, 5)))
    looked_up = any(isinstance(operation, ops.Embedding) and operation.inputs == (0,) for operation in program.ops)
    assert program.inputs[0].type == ("int32" if looked_up else "float32")


def test_parts_of_one_weight_keep_their_own_numbers() -> None:
    """They come from one operator of PyTorch, and were stored under one name."""
    weight = constant(12, 8)

    def forward(x: Tensor) -> Tensor:
        first, second = weight.chunk(2)
        return F.linear(x, first) + F.linear(x, second)

    check(Code(forward), torch.randn(3, 8))


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "sort": (lambda x: x.sort(-1)[0], "has no sort"),
    "many of the largest": (lambda x: x.repeat(1, 1, 3).topk(17)[0], "at most 16"),
    "bits of numbers": (lambda x: x * (x.long() & 3), "has no (__and__|bitwise_and)"),
    "computed indices across examples": (lambda x: x[places(x)[:, 0, 0] % 2], "across the examples|not one for each"),
    "sum over the batch": (lambda x: torch.einsum("btc,btc->tc", x, x), "not one for each example|mixes the examples"),
    "too many rows": (lambda x: F.one_hot(places(x), 5000), "at most 4096"),
    "a generator": (lambda x: x + torch.randn(8, generator=torch.Generator()), "no tensor|torch.export cannot read"),
    "angles": (lambda x: torch.atan2(x, x), "has no atan2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_remains_is_refused_with_a_way_out(name: str) -> None:
    code, message = REFUSED[name]
    with pytest.raises(sw.SignwiseError, match=f"(?s)({message}).*signwise.pack_"):
        sw.compile(Code(code), torch.randn(3, *TOKENS))
