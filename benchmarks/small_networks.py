"""Small plain-PyTorch versions of the networks that people have, each with a small real task, for tests and records."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import signwise as sw
from signwise import datasets

ROOT = Path(__file__).parents[1]
TOKENS, LENGTH = 128, 32  # bytes of ASCII, and how many a network of texts sees at once


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: Any = nn.Identity
) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, act: Any, gate: Any) -> None:
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)
        self.act, self.gate = act(), gate()

    def forward(self, x: Tensor) -> Tensor:
        squeezed: Tensor = self.gate(self.expand(self.act(self.reduce(x.mean((2, 3), keepdim=True)))))
        return x * squeezed


class InvertedResidual(nn.Module):
    """The block of MobileNetV2, MobileNetV3 and EfficientNet."""

    def __init__(self, inputs: int, outputs: int, stride: int, act: Any, gate: Any = None) -> None:
        super().__init__()
        wide = 4 * inputs
        self.expand = conv_norm(inputs, wide, 1, act=act)
        self.depthwise = conv_norm(wide, wide, 3, stride, groups=wide, act=act)
        self.excite = nn.Identity() if gate is None else SqueezeExcite(wide, act, gate)
        self.project = conv_norm(wide, outputs, 1)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.excite(self.depthwise(self.expand(x))))
        return x + y if self.shortcut else y


def mobile(act: Any, gate: Any = None) -> nn.Module:
    return nn.Sequential(
        conv_norm(3, 16, 3, 2, act=act),
        InvertedResidual(16, 24, 2, act, gate),
        InvertedResidual(24, 24, 1, act, gate),
        conv_norm(24, 48, 1, act=act),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(48, 10),
    )


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        found: Tensor = x + (self.narrow(F.gelu(self.wide(y))) * self.scale).permute(0, 3, 1, 2)
        return found


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 4, 4)
        self.blocks = nn.Sequential(ConvNeXtBlock(24), ConvNeXtBlock(24))
        self.norm, self.head = nn.LayerNorm(24), nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.norm(self.blocks(self.stem(x)).mean((2, 3))))
        return found


class UNet(nn.Module):
    """Down, up and across, with transposed convolutions or bilinear upsampling."""

    def __init__(self, bilinear: bool) -> None:
        super().__init__()
        self.first = conv_norm(3, 16, 3, act=nn.ReLU)
        self.second = conv_norm(16, 32, 3, act=nn.ReLU)
        self.deep = conv_norm(32, 32, 3, act=nn.ReLU)
        up = nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(32, 16, 1)
        self.up = nn.Sequential(*up) if bilinear else nn.ConvTranspose2d(32, 16, 2, 2)
        self.merge = conv_norm(32, 16, 3, act=nn.ReLU)
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.first(x)
        deep = self.deep(self.second(F.max_pool2d(wide, 2)))
        found: Tensor = self.head(self.merge(torch.cat([wide, self.up(deep)], 1)))
        return found


def keyword_spotting(dimensions: int) -> nn.Module:
    """A DS-CNN, as for the spectrogram of a second of sound: an image, or a sequence of frames."""
    conv: Any = nn.Conv1d if dimensions == 1 else nn.Conv2d
    norm: Any = nn.BatchNorm1d if dimensions == 1 else nn.BatchNorm2d
    pool: Any = nn.AdaptiveAvgPool1d if dimensions == 1 else nn.AdaptiveAvgPool2d
    layers: list[nn.Module] = [conv(28 if dimensions == 1 else 1, 24, 3, 2, 1), norm(24), nn.ReLU()]
    for _ in range(2):
        layers += [conv(24, 24, 3, 1, 1, groups=24), norm(24), nn.ReLU(), conv(24, 24, 1), norm(24), nn.ReLU()]
    return nn.Sequential(*layers, pool(1), nn.Flatten(), nn.Linear(24, 10))


def autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.LeakyReLU(0.1),
        nn.ConvTranspose2d(32, 16, 3, 2, 1, 1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.ConvTranspose2d(16, 1, 3, 2, 1, 1), nn.Sigmoid(),
    )  # fmt: skip


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=self.causal)
        found: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return found


class Block(nn.Module):
    """A transformer's block, norm first."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.attention = Attention(width, heads, causal)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        found: Tensor = x + self.mlp(self.norm2(x))
        return found


class ViT(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.position = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), tokens], 1) + self.position
        found: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return found


class GPT(nn.Module):
    """Tokens in, logits of the next token out; the head shares the table of the embedding."""

    def __init__(self, width: int = 32, tokens: int = TOKENS, length: int = LENGTH, causal: bool = True) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 4, causal), Block(width, 4, causal))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.05)  # it makes the logits, too

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        found: Tensor = self.head(self.norm(self.blocks(self.embed(tokens) + self.position(positions))))
        return found


class Bert(nn.Module):
    """An encoder of PyTorch's own layers with a class per text."""

    def __init__(self, width: int = 32, tokens: int = TOKENS, length: int = LENGTH) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)
        self.norm = nn.LayerNorm(width)
        self.block = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.head(self.block(self.norm(self.embed(tokens) + self.position))[:, 0])
        return found


# Tasks: real data, small enough that a minute of one core teaches something.

Examples = tuple[Tensor, Tensor]


@functools.cache
def _digits() -> tuple[Examples, Examples]:
    """MNIST with pixels from 0 to 1: images for training and for tests, each with labels."""
    data = datasets.load("mnist")

    def split(images: Any, labels: Any) -> Examples:
        return torch.from_numpy(images.astype("float32")).view(-1, 1, 28, 28) / 255, torch.from_numpy(
            labels.astype("int64")
        )

    return split(data.train_images, data.train_labels), split(data.test_images, data.test_labels)


def _picked(count: int, seed: int, test: bool) -> Examples:
    images, labels = _digits()[test]
    rows = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:count]
    return images[rows], labels[rows]


def digits(count: int, seed: int, test: bool = False) -> Examples:
    """Digits of 32 by 32 pixels in three channels, and which digit it is."""
    images, labels = _picked(count, seed, test)
    return F.pad(images, (2, 2, 2, 2)).expand(-1, 3, -1, -1).contiguous(), labels


def flat_digits(count: int, seed: int, test: bool = False) -> Examples:
    """Digits of 28 by 28 pixels in one channel, and which digit it is."""
    return _picked(count, seed, test)


def rows_of_digits(count: int, seed: int, test: bool = False) -> Examples:
    """Digits as a sequence of 28 columns with 28 numbers each, and which digit it is."""
    images, labels = _picked(count, seed, test)
    return images[:, 0].contiguous(), labels


def segmented_digits(count: int, seed: int, test: bool = False) -> Examples:
    """A shifted digit among noise in three channels, and which pixels belong to the digit."""
    images, _ = _picked(count, seed, test)
    generator = torch.Generator().manual_seed(seed)
    down, right = torch.randint(0, 5, (2, count), generator=generator).tolist()
    placed = torch.stack([F.pad(image, (x, 4 - x, y, 4 - y)) for image, y, x in zip(images, down, right, strict=True)])
    noisy = placed + 0.5 * torch.rand(count, 3, 32, 32, generator=generator)
    return noisy, (placed[:, 0] > 0.5).long()


def same_digits(count: int, seed: int, test: bool = False) -> Examples:
    """Digits, to be reconstructed."""
    images, _ = _picked(count, seed, test)
    return images, images


@functools.cache
def _text(pattern: str, test: bool) -> Tensor:
    """The bytes of this repository's files as ASCII; every eighth file is for tests."""
    paths = sorted(ROOT.glob(pattern))
    chosen = [path for number, path in enumerate(paths) if (number % 8 == 0) == test]
    return torch.tensor([byte if byte < TOKENS else 0 for path in chosen for byte in path.read_bytes()])


def _windows(text: Tensor, count: int, length: int, seed: int) -> Tensor:
    starts = torch.randint(0, len(text) - length, (count,), generator=torch.Generator().manual_seed(seed))
    return torch.stack([text[start : start + length] for start in starts.tolist()])


def next_bytes(count: int, seed: int, test: bool = False) -> Examples:
    """Pieces of this repository's pages, and the byte that follows each byte."""
    windows = _windows(_text("docs/*.md", test), count, LENGTH + 1, seed)
    return windows[:, :-1], windows[:, 1:]


def code_or_prose(count: int, seed: int, test: bool = False) -> Examples:
    """Pieces of this repository's pages and of its code, and which of the two it is."""
    half = count // 2
    pages = _windows(_text("docs/*.md", test), half, LENGTH, seed)
    code = _windows(_text("csrc/**/*.cpp", test), count - half, LENGTH, seed)
    return torch.cat([pages, code]), torch.cat([torch.zeros(half), torch.ones(count - half)]).long()


@dataclass(frozen=True)
class Network:
    """A network with its task.

    Args:
        build: makes it.
        task: examples and what to predict, by count, seed, and whether they are for tests.
        reads: what goes in, for tables.
    """

    build: Callable[[], nn.Module]
    task: Callable[..., Examples]
    reads: str

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        if target.is_floating_point():
            return F.mse_loss(outputs, target)
        # Classes are the last dimension of a text's outputs, and the second of an image's.
        return F.cross_entropy(outputs.flatten(0, -2) if self.is_text else outputs,
                               target.flatten() if self.is_text else target)  # fmt: skip

    def accuracy(self, outputs: Tensor, target: Tensor) -> float | None:
        """The fraction of right predictions; None for numbers."""
        if target.is_floating_point():
            return None
        return float((outputs.argmax(-1 if self.is_text else 1) == target).float().mean())

    @property
    def is_text(self) -> bool:
        return self.task is next_bytes


NETWORKS: dict[str, Network] = {
    "MobileNetV2": Network(lambda: mobile(nn.ReLU6), digits, "image"),
    "MobileNetV3": Network(lambda: mobile(nn.Hardswish, nn.Hardsigmoid), digits, "image"),
    "EfficientNet": Network(lambda: mobile(nn.SiLU, nn.Sigmoid), digits, "image"),
    "ConvNeXt": Network(ConvNeXt, digits, "image"),
    "U-Net, transposed": Network(lambda: UNet(bilinear=False), segmented_digits, "image"),
    "U-Net, bilinear": Network(lambda: UNet(bilinear=True), segmented_digits, "image"),
    "DS-CNN, 1-D": Network(lambda: keyword_spotting(1), rows_of_digits, "sequence"),
    "DS-CNN, 2-D": Network(lambda: keyword_spotting(2), flat_digits, "image"),
    "autoencoder": Network(autoencoder, same_digits, "image"),
    "ViT": Network(ViT, digits, "image"),
    "GPT": Network(GPT, next_bytes, "tokens"),
    "BERT": Network(Bert, code_or_prose, "tokens"),
}


@dataclass(frozen=True)
class Trained:
    """A network after a short training with one bit: in evaluation mode, with its losses step by step."""

    model: nn.Module
    losses: list[float]


def train(network: Network, steps: int = 150, batch: int = 32, seed: int = 0) -> Trained:
    """Binarize a network as ``binarize_`` does by default, and train it from scratch."""
    torch.manual_seed(seed)
    model = network.build()
    sw.binarize_(model, example_input=network.task(2, seed)[0])
    optimizer = torch.optim.AdamW(sw.param_groups(model, weight_decay=1e-2), lr=4e-3)
    sw.attach(
        optimizer, model, sw.BinarizationSchedule(total_steps=steps, t_alpha=0.6), sw.CosineDecay(total_steps=steps)
    )
    losses = []
    for step in range(steps):
        examples, target = network.task(batch, seed=step)
        loss = network.loss(model(examples), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return Trained(model.eval(), losses)


def untrained(network: Network, examples: int) -> tuple[sw.Program, Any]:
    """The program of a binary network with random weights, and examples to run it on."""
    torch.manual_seed(0)
    model, given = network.build(), network.task(examples, seed=0)[0]
    sw.binarize_(model, example_input=given[:2])
    with torch.no_grad():
        model(given)  # batch-norm statistics to match
    return sw.compile(model.eval(), given[:2]), as_array(given)


def as_array(examples: Tensor) -> Any:
    return examples.numpy() if examples.is_floating_point() else examples.int().numpy()
