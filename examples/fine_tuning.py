"""Fine-tuning: a trained float network becomes binary, with its float self as the teacher.

    python examples/fine_tuning.py

Trains a float LeNet5 on MNIST, then gives it ±1 weights in two ways, with the same number of steps: starting from the
float weights, and from scratch. With a network of your own, load its checkpoint in place of the first training.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import signwise as sw

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=300, help="steps of each of the three trainings")
parser.add_argument("--out", type=Path, default=Path("fine-tuning"))
parser.add_argument("--quick", action="store_true", help="40 steps: too few to learn much, enough to see it work")
options = parser.parse_args()
steps = 40 if options.quick else options.steps
options.out.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)

data = sw.datasets.load("mnist")
images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
test_images, test_labels = torch.from_numpy(data.test_images[::5]), torch.from_numpy(data.test_labels[::5])


def error_of(model: nn.Module) -> float:
    """The test error in percent; a binary model evaluates with its ±1 weights."""
    with torch.no_grad():
        wrong = model.eval()(test_images).argmax(1) != test_labels
    model.train()
    return 100 * float(wrong.float().mean())


def train(model: nn.Module, teacher: nn.Module | None = None) -> tuple[list[float], list[float]]:
    """Train with labels, and with the outputs of a teacher if there is one; returns losses and ten test errors."""
    optimizer = sw.SGDW(sw.param_groups(model, weight_decay=1e-3), lr=0.02)
    if any(sw.binary_layers(model)):
        schedule = sw.BinarizationSchedule(steps, t_alpha=0.5)
        sw.attach(optimizer, model, schedule, sw.CosineDecay(total_steps=steps))
    losses, errors = [], []
    for step in range(steps):
        batch = torch.randint(len(images), (64,))
        outputs = model(images[batch])
        loss = F.cross_entropy(outputs, labels[batch])
        if teacher is not None:
            with torch.no_grad():
                taught = teacher(images[batch]).softmax(1)
            loss = 0.5 * loss + 0.5 * F.cross_entropy(outputs, taught)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % (steps // 10) == 0:
            errors.append(error_of(model))
    return losses, errors


scratch = nn.Sequential(sw.models.Standardize(data.mean, data.std), sw.models.lenet5())
teacher = copy.deepcopy(scratch)
train(teacher)
float_error = error_of(teacher)
print(f"float network: test error {float_error:.2f} %")

model = copy.deepcopy(teacher.train())  # the float weights become the latents: same names, same checkpoint
print(sw.binarize_(model, skip=sw.last))
losses, errors = train(model, teacher.eval())
sw.binarize_(scratch, skip=sw.last)
_, scratch_errors = train(scratch)
print(f"±1 weights, from the float network: test error {errors[-1]:.2f} %; from scratch: {scratch_errors[-1]:.2f} %")

path = options.out / "fine-tuned.sw"
program = sw.compile(model.eval(), images[:2])
program.save(path)
session = sw.load(path, threads=1)  # from here on, numpy alone
packed_error = 100 * (session(test_images.numpy()).argmax(1) != test_labels.numpy()).mean()
print(f"packed file, without PyTorch: test error {packed_error:.2f} %")
print(f"{path}: {path.stat().st_size:,} bytes; with float32 weights {program.float32_bytes:,}")

figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
at = np.arange(1, len(errors) + 1) * (steps // 10)
axis.axhline(float_error, color="black", linestyle="--", label="float network")
axis.plot(at, scratch_errors, "s-", color="#d55e00", label="±1 weights, from scratch")
axis.plot(at, errors, "o-", color="#0072b2", label="±1 weights, from the float network")
axis.set(xlabel="training step", ylabel="test error, %", yscale="log", title=f"LeNet5 on MNIST, {steps} steps each")
axis.legend(frameon=False)
figure.savefig(options.out / "picture.png", dpi=120)
print(f"the picture: {options.out / 'picture.png'}")
