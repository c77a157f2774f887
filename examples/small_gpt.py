"""A small GPT: a decoder with ±1 weights learns to continue the bytes of a text.

    python examples/small_gpt.py                  # the source of Python's standard library
    python examples/small_gpt.py book.txt

A larger one, with checkpoints, several processes and llama.cpp: examples/language_model/train.py.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F

import signwise as sw

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("text", nargs="*", type=Path, help="text files; Python's standard library if left out")
parser.add_argument("--steps", type=int, default=700)
parser.add_argument("--out", type=Path, default=Path("small-gpt"))
parser.add_argument("--quick", action="store_true", help="40 steps of a smaller model: enough to see it work")
options = parser.parse_args()
steps, width = (40, 64) if options.quick else (options.steps, 128)
options.out.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)

files = options.text or sorted(Path(argparse.__file__).parent.glob("*.py"))
tokens = torch.tensor(np.frombuffer(b"\n".join(file.read_bytes() for file in files), np.uint8))
training, testing = tokens[: len(tokens) * 19 // 20], tokens[len(tokens) * 19 // 20 :]
LENGTH = 128  # bytes that the model sees at once

config = sw.models.LlamaConfig(
    hidden_size=width, intermediate_size=3 * width, num_hidden_layers=3, max_position_embeddings=2 * LENGTH
)
model = sw.models.llama(config)
print(sw.binarize_(model, method=sw.GroupTransform(scale="learned", block=64)))  # one scale per 64 weights
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.95), weight_decay=0.0)
schedule = sw.BinarizationSchedule(steps, t_alpha=0.5, zeta=(1.0, 6.0), zeta_ramp=0.5)
sw.attach(optimizer, model, schedule, sw.LinearDecay(total_steps=steps, warmup_steps=steps // 20))
losses = []
for step in range(steps):
    starts = torch.randint(len(training) - LENGTH, (8, 1))
    windows = training[starts + torch.arange(LENGTH + 1)].long()
    loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()) / math.log(2)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
    if (step + 1) % (steps // 4) == 0:
        print(f"step {step + 1}/{steps}: {np.mean(losses[-10:]):.2f} bits per byte")

path = options.out / "gpt.sw"
program = sw.compile_decoder(model.eval())
program.save(path)
generator = sw.Generator(path)  # from here on, numpy alone


def surprise(text: bytes) -> list[float]:
    """How many bits each byte after the first costs: -log2 of the probability that the model gave it."""
    all_scores = [scores / math.log(2) for scores in generator.scores(text[:-1])]
    return [
        float(np.logaddexp2.reduce(scores) - scores[byte]) for scores, byte in zip(all_scores, text[1:], strict=True)
    ]


places = np.linspace(0, len(testing) - 2 * LENGTH, 16).astype(int)
excerpts = [bytes(testing[place : place + 2 * LENGTH].tolist()) for place in places]
costs = [surprise(excerpt) for excerpt in excerpts]
print(f"test: {np.mean(costs):.2f} bits per byte")
print(f"{path}: {path.stat().st_size:,} bytes; with float32 weights {program.float32_bytes:,}")
prompt = b"def " if not options.text else excerpts[0][:20]
continued = bytes(generator.generate(prompt, 150, temperature=0.7))
print((prompt + continued).decode(errors="replace"))

# The picture: a held-out text, each character on a ground that is the darker, the less the model expected it.
figure, axis = plt.subplots(figsize=(9, 2.6), layout="constrained")
axis.set(xlim=(0, 64), ylim=(4, 0), title="Held-out text: the darker, the less expected (black: 10 bits or more)")
shade = np.array([0, *costs[1]])
axis.imshow(shade.reshape(4, 64), cmap="gray_r", vmin=0, vmax=10, extent=(0, 64, 4, 0), aspect="auto")
for place, byte in enumerate(excerpts[1]):
    character = {10: "↵"}.get(byte, chr(byte) if 32 <= byte < 127 else "·")
    colour = "white" if shade[place] > 5 else "black"
    axis.text(
        place % 64 + 0.5, place // 64 + 0.5, character, ha="center", va="center", color=colour, family="monospace"
    )
axis.axis("off")
figure.savefig(options.out / "picture.png", dpi=120)
print(f"the picture: {options.out / 'picture.png'}")
