"""Small plain-PyTorch versions of the networks that people have, for the tests and the record of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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
    """A DS-CNN on the spectrogram of a second of sound: as an image, or as a sequence of frames."""
    conv: Any = nn.Conv1d if dimensions == 1 else nn.Conv2d
    norm: Any = nn.BatchNorm1d if dimensions == 1 else nn.BatchNorm2d
    pool: Any = nn.AdaptiveAvgPool1d if dimensions == 1 else nn.AdaptiveAvgPool2d
    layers: list[nn.Module] = [conv(16 if dimensions == 1 else 1, 24, 3, 2, 1), norm(24), nn.ReLU()]
    for _ in range(2):
        layers += [conv(24, 24, 3, 1, 1, groups=24), norm(24), nn.ReLU(), conv(24, 24, 1), norm(24), nn.ReLU()]
    return nn.Sequential(*layers, pool(1), nn.Flatten(), nn.Linear(24, 12))


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

    def __init__(self, width: int = 32, tokens: int = 40, length: int = 12, causal: bool = True) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 4, causal), Block(width, 4, causal))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        found: Tensor = self.head(self.norm(self.blocks(self.embed(tokens) + self.position(positions))))
        return found


class Bert(nn.Module):
    """An encoder of PyTorch's own layers with a class per text."""

    def __init__(self, width: int = 32, tokens: int = 40, length: int = 12) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)
        self.norm, self.block = nn.LayerNorm(width), Block(width, 4)
        self.head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.head(self.block(self.norm(self.embed(tokens) + self.position))[:, 0])
        return found


def _images(count: int) -> Tensor:
    return torch.randn(count, 3, 32, 32)


def _tokens(count: int) -> Tensor:
    return torch.randint(0, 40, (count, 12))


# By name: what makes the network, and what makes a batch of its inputs.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor]]] = {
    "MobileNetV2": (lambda: mobile(nn.ReLU6), _images),
    "MobileNetV3": (lambda: mobile(nn.Hardswish, nn.Hardsigmoid), _images),
    "EfficientNet": (lambda: mobile(nn.SiLU, nn.Sigmoid), _images),
    "ConvNeXt": (ConvNeXt, _images),
    "U-Net, transposed": (lambda: UNet(bilinear=False), _images),
    "U-Net, bilinear": (lambda: UNet(bilinear=True), _images),
    "DS-CNN, 1-D": (lambda: keyword_spotting(1), lambda count: torch.randn(count, 16, 50)),
    "DS-CNN, 2-D": (lambda: keyword_spotting(2), lambda count: torch.randn(count, 1, 24, 16)),
    "autoencoder": (autoencoder, lambda count: torch.rand(count, 1, 16, 16)),
    "ViT": (ViT, _images),
    "GPT": (GPT, _tokens),
    "BERT": (Bert, _tokens),
}
