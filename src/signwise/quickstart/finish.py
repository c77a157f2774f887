"""After the training: compile and save both networks, measure the files in a process without PyTorch, and compare."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from signwise import datasets
from signwise.compiler import compile as compile_model
from signwise.errors import SignwiseError
from signwise.figures.comparison import Bar, Panel, draw
from signwise.figures.style import save
from signwise.models import Standardize
from signwise.quickstart.measure import best_microseconds
from signwise.training.trained import Trained, load_run


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table at the end.

    Args:
        name: the network, its training, and what runs it.
        bits: bits of a weight.
        error: percent of the test images.
        size: bytes on disk.
        microseconds: time of one image on one thread.
    """

    name: str
    bits: int
    error: float
    size: int
    microseconds: float


def pack_run(folder: Path) -> tuple[Path, Trained, nn.Module]:
    """Compile the last weights of a run to ``FOLDER.sw``; the network takes raw pixels."""
    trained = load_run(folder, "last")
    network = trained.config["network"]
    model = nn.Sequential(Standardize(network["mean"], network["std"]), trained.network).eval()
    about = {
        "network": f"{trained.recipe.model}, {trained.recipe.bits} bit",
        "dataset": trained.recipe.dataset,
        "trained": f"{trained.recipe.epochs} epochs, the quickstart's own recipe",
    }
    path = folder.with_suffix(".sw")
    compile_model(model, torch.zeros(1, *network["input_shape"]), about=about).save(path)
    return path, trained, model


def measure_files(files: list[Path], data: Path | None = None) -> list[dict[str, Any]]:
    """Measure packed files in a process of their own, where PyTorch cannot be imported."""
    place = [] if data is None else ["--data", str(data)]
    # A module that is None in sys.modules cannot be imported: whoever tries gets an ImportError.
    code = "import sys; sys.modules['torch'] = None; from signwise.quickstart.measure import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, *place, *map(str, files)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    if done.returncode != 0:
        raise SignwiseError(f"measuring the packed files failed with exit code {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def pytorch_microseconds(model: nn.Module, dataset: str, data: Path | None = None) -> float:
    """The time of one image in PyTorch, on one thread."""
    image = torch.from_numpy(datasets.load(dataset, data).test_images[:1].astype(np.float32))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            return best_microseconds(lambda: model(image))
    finally:
        torch.set_num_threads(threads)


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    cells = [("network", "error", "bytes on disk", "µs an image")]
    cells += [(row.name, f"{row.error:.2f} %", f"{row.size:,}", f"{row.microseconds:,.0f}") for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    lines = []
    for name, *numbers in cells:
        right = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *right]))
    return "\n".join(lines)


def figure(rows: list[Row], path: Path) -> None:
    """The rows as bars, one panel a column of the table."""

    def bars(values: list[float], texts: list[str], labels: bool) -> list[Bar]:
        return [
            Bar(label=row.name if labels else "", value=value, text=text, binary=row.bits == 1)
            for row, value, text in zip(rows, values, texts, strict=True)
        ]

    sizes = [row.size for row in rows]
    times = [row.microseconds for row in rows]
    errors = [row.error for row in rows]
    panels = [
        Panel(title="KB on disk", bars=bars(list(map(float, sizes)), [f"{size / 1e3:,.0f}" for size in sizes], True)),
        Panel(title="µs an image, one thread", bars=bars(times, [f"{time:,.0f}" for time in times], False)),
        Panel(title="error, %", bars=bars(errors, [f"{error:.2f}" for error in errors], False)),
    ]
    save(draw(panels), path)
