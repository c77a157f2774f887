"""Binary weights in a plain PyTorch loop: four lines more than the float version, each marked (1) to (4).

    python examples/plain_loop.py            # a minute on one core

Trains the paper's LeNet5 on half of the embedded MNIST for three epochs, then packs it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import signwise as sw

EPOCHS, BATCH, IMAGES = 3, 100, 30_000

torch.manual_seed(0)
data = sw.datasets.load("mnist")
standardize = sw.models.Standardize(data.mean, data.std)
images = standardize(torch.from_numpy(data.train_images[:IMAGES]))
labels = torch.from_numpy(data.train_labels[:IMAGES])
test_images, test_labels = standardize(torch.from_numpy(data.test_images)), torch.from_numpy(data.test_labels)

model = sw.models.lenet5()
print(sw.binarize_(model, skip=sw.last))  # (1) weights become ±1, except in the last layer
optimizer = sw.SGDW(sw.param_groups(model, weight_decay=1e-3), lr=0.02)  # (2) decay for weights, none for norms
schedule = sw.BinarizationSchedule(EPOCHS * IMAGES // BATCH, t_alpha=0.5)
sw.attach(optimizer, model, schedule)  # (3) from here on each optimizer step also moves α and ζ

for epoch in range(EPOCHS):
    model.train()
    for batch in torch.randperm(IMAGES).split(BATCH):
        loss = F.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()  # evaluation uses sign(φ), the deployed weights
    with torch.no_grad():
        error = (model(test_images).argmax(1) != test_labels).float().mean()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}, test error with ±1 weights {100 * error.item():.2f} %")

sw.pack_(model)  # (4) one bit per weight from here on
print(f"packed: {sum(t.numel() * t.element_size() for t in model.state_dict().values()):,} bytes")
