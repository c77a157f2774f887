"""Binary weights with accelerate: one process or many, bfloat16, accumulated gradients, and resuming after a crash.

    python examples/accelerate_loop.py --out run                       # a minute on one core
    accelerate launch --cpu --num_processes 2 examples/accelerate_loop.py --out run
    python examples/accelerate_loop.py --out run --resume

Needs ``pip install 'signwise[integrations]'``. The lines marked (1) to (3) are all that binarization adds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

import signwise as sw

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
parser.add_argument("--resume", action="store_true", help="continue from the checkpoint in --out")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--images", type=int, default=20_000)
parser.add_argument("--precision", choices=("no", "bf16"), default="no")
arguments = parser.parse_args()

accelerator = Accelerator(mixed_precision=arguments.precision, gradient_accumulation_steps=2)
set_seed(0)
data = sw.datasets.load("mnist")
standardize = sw.models.Standardize(data.mean, data.std)
images = standardize(torch.from_numpy(data.train_images[: arguments.images]))
labels = torch.from_numpy(data.train_labels[: arguments.images])
test_images, test_labels = standardize(torch.from_numpy(data.test_images)), torch.from_numpy(data.test_labels)

model = sw.models.lenet5()
sw.binarize_(model, skip=sw.last)  # (1)
optimizer = sw.SGDW(sw.param_groups(model, weight_decay=1e-3), lr=0.02)
loader = DataLoader(TensorDataset(images, labels), batch_size=50, shuffle=True, drop_last=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

# Optimizer steps of this process: the prepared loader knows its share of the batches.
total_steps = arguments.epochs * -(-len(loader) // accelerator.gradient_accumulation_steps)
schedule = sw.BinarizationSchedule(total_steps, t_alpha=0.5)  # (2)
sw.attach(optimizer, model, schedule, sw.CosineDecay(total_steps=total_steps))  # (3)
accelerator.register_for_checkpointing(schedule)

first = 0
if arguments.resume:
    accelerator.load_state(str(arguments.out))
    first = int((arguments.out / "epoch").read_text())
for epoch in range(first, arguments.epochs):
    model.train()
    loader.set_epoch(epoch)  # the prepared loader shuffles by epoch
    for batch, targets in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(batch), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad()
    model.eval()  # evaluation uses sign(φ), the deployed weights
    with torch.no_grad():
        wrong = (model(test_images.to(accelerator.device)).argmax(1).cpu() != test_labels).float().mean()
    accelerator.print(f"epoch {epoch + 1}: test error with ±1 weights {100 * wrong.item():.2f} %")
    accelerator.save_state(str(arguments.out))
    if accelerator.is_main_process:
        (arguments.out / "epoch").write_text(str(epoch + 1))
    accelerator.wait_for_everyone()
