"""What a training step of a 1-bit language model costs, measured at three sizes, and what 1 and 7 billion weights need.

    python -m benchmarks.language_model_memory

Each size trains for a few steps in a process of its own, in one thread. All sizes see the same few tokens, so that
weights dominate the memory. Everything enters ``results/language-model-memory.json``; the documentation derives its
table from there.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import signwise as sw
from signwise.provenance import write_record

ROOT = Path(__file__).parents[1]
SIZES = ((256, 4), (512, 6), (768, 8))  # width, blocks
TOKENS, CONTEXT = 512, 128  # per step
LARGE = {
    "1 billion": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_key_value_heads": 8},
    "7 billion": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_key_value_heads": 32},
}
VOCABULARY = 32000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--one", nargs=3, metavar=("METHOD", "WIDTH", "BLOCKS"), help="measure one size, print JSON")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "language-model-memory.json")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one[0], int(options.one[1]), int(options.one[2]), options.steps)))
        return
    rows = [in_a_process(method, size, options.steps) for size in SIZES for method in ("float", "group_transform")]
    write_record(options.out, {"tokens": TOKENS, "steps": rows, "large": [counted(name) for name in LARGE]})


def in_a_process(method: str, size: tuple[int, int], steps: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.language_model_memory", "--steps", str(steps), "--one", method]
    done = subprocess.run([*command, *map(str, size)], capture_output=True, text=True, check=True, cwd=ROOT)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def measured(method: str, width: int, blocks: int, steps: int) -> dict[str, Any]:
    """The fastest of some steps, and the largest memory of the process less that before the model was made."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    config = sw.models.LlamaConfig(hidden_size=width, intermediate_size=3 * width, num_hidden_layers=blocks)
    model = sw.models.llama(config)
    if method != "float":
        sw.binarize_(model, method=sw.GroupTransform(scale="learned", block=128))
        for _, layer in sw.binary_layers(model):
            layer.set_progress_(alpha=0.5, zeta=1.0, progress=0.5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(config.vocab_size, (TOKENS // CONTEXT, CONTEXT + 1))
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            scores = model(tokens[:, :-1]).float()
        loss = F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    weights = sum(weight.numel() for weight in model.parameters())
    return {
        "method": method,
        "width": width,
        "blocks": blocks,
        "weights": weights,
        "seconds": min(seconds),
        "bytes": 1024 * (peak - before),
    }


def counted(name: str) -> dict[str, Any]:
    """The weights of a large model, whose layers take no memory here."""
    config = sw.models.LlamaConfig(
        vocab_size=VOCABULARY, num_attention_heads=32, max_position_embeddings=4096, **LARGE[name]
    )
    with torch.device("meta"):
        model = sw.models.llama(config)
    total = sum(weight.numel() for weight in model.parameters())
    blocks = [sum(weight.numel() for weight in block.parameters()) for block in model.model.layers]
    binary = sum(weight.numel() for block in model.model.layers for weight in block.parameters() if weight.dim() == 2)
    return {
        "name": name,
        "weights": total,
        "binary_weights": binary,
        "matrix_weights_beside": sum(weight.numel() for weight in model.parameters() if weight.dim() == 2) - binary,
        "block_weights": max(blocks),
    }


if __name__ == "__main__":
    main()
