"""Image classification: a small convolutional network with ±1 weights, on MNIST or on a folder of your own images.

    python examples/image_classification.py                      # MNIST, which comes with signwise
    python examples/image_classification.py --data photos --size 32

The folder has one subfolder per class: photos/cat/1.jpg, photos/dog/2.png. A tenth of each class is for tests.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import signwise as sw

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", type=Path, help="a folder of images by class; MNIST if left out")
parser.add_argument("--size", type=int, default=32, help="pixels to which your own images are scaled")
parser.add_argument("--steps", type=int, default=800)
parser.add_argument("--out", type=Path, default=Path("image-classification"))
parser.add_argument("--quick", action="store_true", help="40 steps: too few to learn much, enough to see it work")
options = parser.parse_args()
steps = 40 if options.quick else options.steps
options.out.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)

data = sw.datasets.load_own(options.data, image_size=options.size) if options.data else sw.datasets.load("mnist")
images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
channels, classes = images.shape[1], len(data.classes)


def block(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]


model = nn.Sequential(
    sw.models.Standardize(data.mean, data.std),  # within the model, so that the packed file takes raw pixels
    *block(channels, 32), *block(32, 64), *block(64, 128),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes),
)  # fmt: skip

print(sw.binarize_(model))  # all but the first and the last layer
optimizer = sw.SGDW(sw.param_groups(model, weight_decay=1e-3), lr=0.05)
schedule = sw.BinarizationSchedule(steps, t_alpha=0.5)
sw.attach(optimizer, model, schedule, sw.CosineDecay(total_steps=steps))

losses = []
for step in range(steps):
    batch = torch.randint(len(images), (64,))
    loss = F.cross_entropy(model(images[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if (step + 1) % (steps // 4) == 0:
        print(f"step {step + 1}/{steps}: loss {np.mean(losses[-20:]):.3f}")

# From here on nothing needs PyTorch but compile itself: `sw.load` and the session work where only numpy is installed.
path = options.out / "classifier.sw"
program = sw.compile(model.eval(), images[:2])
program.save(path)
session = sw.load(path, threads=1)
scores = session(data.test_images)
predicted = scores.argmax(1)
error = (predicted != data.test_labels).mean()
print(f"test error {100 * error:.2f} % of {len(scores):,} images")
print(f"{path}: {path.stat().st_size:,} bytes; with float32 weights {program.float32_bytes:,}")

# The picture: some ±1 filters, and the test images that the network gets wrong with the most confidence.
figure, axes = plt.subplot_mosaic("KK01234\nKK56789", figsize=(8.5, 2.9), layout="constrained")
last_binary = [layer for _, layer in sw.binary_layers(model)][-1]
kernels = sw.binary_sign(last_binary.weight.detach())[:8, :8].numpy()  # (8 filters, 8 of their inputs, 3, 3)
framed = np.pad(kernels, ((0, 0), (0, 0), (1, 0), (1, 0)))  # zeros, a grey line between two of them
axes["K"].imshow(framed.transpose(0, 2, 1, 3).reshape(32, 32), cmap="gray", vmin=-1, vmax=1)
axes["K"].set_title("64 kernels: black −1, white +1", fontsize=10)
wrong = np.flatnonzero(predicted != data.test_labels)
surest = wrong[np.argsort(-np.ptp(scores[wrong], axis=1))]
for place, row in zip("0123456789", surest, strict=False):
    axes[place].imshow(data.test_images[row].transpose(1, 2, 0), cmap="gray")
    axes[place].set_title(f"{data.classes[data.test_labels[row]]} → {data.classes[predicted[row]]}", fontsize=9)
for axis in axes.values():
    axis.axis("off")
figure.savefig(options.out / "picture.png", dpi=120)
print(f"the picture: {options.out / 'picture.png'}")
