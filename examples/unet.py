"""Segmentation: a U-Net with ±1 weights finds the handwriting among lines and noise.

    python examples/unet.py

The images are made from MNIST: two digits, random lines that are as bright as they are, and noise. The network says for
each pixel whether it belongs to a digit. Transposed convolutions bring it back to full resolution.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import signwise as sw

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--out", type=Path, default=Path("unet"))
parser.add_argument("--quick", action="store_true", help="40 steps: enough to see it work")
options = parser.parse_args()
steps = 40 if options.quick else options.steps
options.out.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
data = sw.datasets.load("mnist")


def scenes(digits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Images (count, 1, 32, 64) with values from 0 to 1.5, and for each pixel 1 where a digit is."""
    pairs = digits[torch.randint(len(digits), (2, count))].float() / 255  # (2, count, 1, 28, 28)
    mask = F.pad(torch.cat([pairs[0], pairs[1]], dim=3), (4, 4, 2, 2))
    down, right = torch.meshgrid(torch.arange(32.0), torch.arange(64.0), indexing="ij")
    lines = torch.zeros(count, 1, 32, 64)
    for _ in range(4):  # each is a strip around a straight line at a random angle through a random point
        angle, x, y = (torch.rand(3, count, 1, 1, 1) * torch.tensor([3.14, 64, 32]).view(3, 1, 1, 1, 1)).unbind()
        distance = ((right - x) * angle.sin() - (down - y) * angle.cos()).abs()
        lines = torch.maximum(lines, (2 - distance).clamp(0, 1))
    return torch.maximum(mask, lines) + 0.5 * torch.rand(count, 1, 32, 64), (mask > 0.5).long()[:, 0]


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = block(1, 16), block(16, 32), block(32, 64)
        self.up_second, self.merge_second = nn.ConvTranspose2d(64, 32, 2, 2), block(64, 32)
        self.up_first, self.merge_first = nn.ConvTranspose2d(32, 16, 2, 2), block(32, 16)
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        second = self.second(F.max_pool2d(first, 2))
        third = self.third(F.max_pool2d(second, 2))
        merged = self.merge_second(torch.cat([second, self.up_second(third)], 1))
        scores: Tensor = self.head(self.merge_first(torch.cat([first, self.up_first(merged)], 1)))
        return scores


model = UNet()
digits, test_digits = torch.from_numpy(data.train_images), torch.from_numpy(data.test_images)
print(sw.binarize_(model, example_input=scenes(digits, 2)[0]))
optimizer = torch.optim.AdamW(sw.param_groups(model, weight_decay=1e-2), lr=4e-3)
schedule = sw.BinarizationSchedule(steps, t_alpha=0.5)
sw.attach(optimizer, model, schedule, sw.CosineDecay(total_steps=steps))
losses = []
for step in range(steps):
    inputs, target = scenes(digits, 16)
    loss = F.cross_entropy(model(inputs), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if (step + 1) % (steps // 4) == 0:
        print(f"step {step + 1}/{steps}: loss {np.mean(losses[-10:]):.3f}")
path = options.out / "unet.sw"
program = sw.compile(model.eval(), inputs[:2])
program.save(path)
session = sw.load(path, threads=1)  # from here on, numpy alone
images, truth = (part.numpy() for part in scenes(test_digits, 200))
found = session(images).argmax(1)
overlap = (found & truth).sum() / (found | truth).sum()
print(f"wrong pixels {100 * (found != truth).mean():.2f} %, intersection over union {overlap:.3f}")
print(f"{path}: {path.stat().st_size:,} bytes; with float32 weights {program.float32_bytes:,}")

figure, axes = plt.subplots(3, 4, figsize=(9, 3.9), layout="constrained")
for row, pictures in enumerate((images[:, 0], truth, found)):
    for axis, picture in zip(axes[row], pictures, strict=False):
        axis.imshow(picture, cmap="gray")
        axis.set(xticks=[], yticks=[], ylabel=("image", "truth", "±1 U-Net")[row] if axis is axes[row, 0] else "")
figure.savefig(options.out / "picture.png", dpi=120)
print(f"the picture: {options.out / 'picture.png'}")
