"""Keyword spotting: a DS-CNN with ±1 weights tells spoken words apart.

    python examples/keyword_spotting.py                    # words spoken by espeak-ng (Debian: apt install espeak-ng)
    python examples/keyword_spotting.py --data recordings  # your own: recordings/yes/1.wav, recordings/no/2.wav, ...

Without a folder and without espeak-ng, the "words" are pairs of tones. Both are much easier than people in real rooms.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import wave
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import signwise as sw

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", type=Path, help="a folder with one subfolder of 16-bit .wav files per word")
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--out", type=Path, default=Path("keyword-spotting"))
parser.add_argument("--quick", action="store_true", help="few steps and voices: enough to see it work")
options = parser.parse_args()
steps = 80 if options.quick else options.steps
options.out.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
random = np.random.default_rng(0)


def spoken(folder: Path) -> Path:
    """Write ten words in many voices as .wav files, spoken by espeak-ng or else as pairs of tones."""
    words = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
    speakers = ("f1", "f2", "f3", "f4", "m1", "m3", "m5", "m7")[:: 4 if options.quick else 1]
    for word, accent, speaker, speed in product(words, ("en-gb", "en-us"), speakers, (120, 160, 200)):
        path = folder / word / f"{accent}-{speaker}-{speed}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        if shutil.which("espeak-ng"):
            subprocess.run(["espeak-ng", "-v", f"{accent}+{speaker}", "-s", str(speed), "-w", path, word], check=True)
        else:
            pitch = (300 + 60 * words.index(word)) * random.uniform(0.95, 1.05) * np.arange(8_000) / 16_000
            tones = np.sin(2 * np.pi * pitch) + np.sin(2 * np.pi * 2.6 * pitch)
            with wave.open(str(path), "wb") as file:
                file.setparams((1, 2, 16_000, 0, "NONE", ""))
                file.writeframes((8_000 * tones).astype("<i2").tobytes())
    return folder


folder = options.data or spoken(options.out / "words")
words = sorted(path.name for path in folder.iterdir() if path.is_dir())
features, labels, held_out = [], [], []
for label, word in enumerate(words):
    paths = sorted((folder / word).glob("*.wav"))
    features += [sw.datasets.mel_spectrogram(path) for path in paths]
    labels += [label] * len(paths)
    held_out += [5 * place >= 4 * len(paths) for place in range(len(paths))]  # the last fifth by name: other voices
sounds, truth, is_test = np.stack(features), np.array(labels), np.array(held_out)
layers: list[nn.Module] = [nn.Conv2d(1, 64, 5, 2, 2, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
for stride in (2, 1, 1):
    layers += [nn.Conv2d(64, 64, 3, stride, 1, groups=64, bias=False), nn.BatchNorm2d(64), nn.ReLU()]  # depthwise
    layers += [nn.Conv2d(64, 64, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]  # pointwise: here are the weights
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, len(words)))
# Depthwise filters stay float, too: they have few weights, and nine signs say little.
print(sw.binarize_(model, skip=[sw.first_and_last, lambda layer, name: getattr(layer, "groups", 1) > 1]))
optimizer = torch.optim.AdamW(sw.param_groups(model, weight_decay=1e-2), lr=4e-3)
sw.attach(optimizer, model, sw.BinarizationSchedule(steps, t_alpha=0.5), sw.CosineDecay(total_steps=steps))
losses = []
for step in range(steps):
    batch = random.choice(np.flatnonzero(~is_test), 32)
    shifted = torch.tensor(np.roll(sounds[batch], random.integers(-10, 11), axis=3))
    loss = F.cross_entropy(model(shifted + 0.2 * torch.randn_like(shifted)), torch.tensor(truth[batch]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if (step + 1) % (steps // 4) == 0:
        print(f"step {step + 1}/{steps}: loss {np.mean(losses[-10:]):.3f}")
path = options.out / "keywords.sw"
program = sw.compile(model.eval(), torch.tensor(sounds[:2]))
program.save(path)
session = sw.load(path, threads=1)  # from here on, numpy alone; mel_spectrogram needs no more, either
predicted = session(sounds).argmax(1)
print(f"test error {100 * (predicted != truth)[is_test].mean():.1f} % of {is_test.sum()} sounds")
print(f"{path}: {path.stat().st_size:,} bytes; with float32 weights {program.float32_bytes:,}")

figure, axes = plt.subplots(2, (len(words) + 1) // 2, figsize=(9, 3.4), layout="constrained")
for axis, label in zip(axes.flat, range(len(words)), strict=False):
    row = np.flatnonzero((truth == label) & is_test)[0]
    axis.imshow(sounds[row, 0], origin="lower", aspect="auto", cmap="gray_r")
    axis.set(title=f"“{words[label]}” → {words[predicted[row]]}", xticks=[], yticks=[])
figure.savefig(options.out / "picture.png", dpi=120)
print(f"the picture: {options.out / 'picture.png'}")
