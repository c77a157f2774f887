"""Train a small 1-bit language model on bytes, and write it as a GGUF file for llama.cpp.

    python examples/language_model/train.py --out runs/kjv
    torchrun --standalone --nproc-per-node 2 examples/language_model/train.py --out runs/kjv --shard

Run the same command again after an interruption: it continues from its checkpoint. ``record.json`` holds the losses in
bits per byte, with everything that they depend on. The last twentieth of the text is the test part; the twentieth
before it is for validation, and the rest for training. Choose settings on the validation part.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# Imported before a process group exists: its functions would keep the group, and its threads, alive to the end.
import torch.distributed.nn.functional
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

import signwise as sw
from signwise.atomic import atomic_write
from signwise.provenance import write_record

METHODS: dict[str, sw.Method | None] = {
    "float": None,
    "group_transform": sw.GroupTransform(scale="learned", block=128),
    "group_transform_mean": sw.GroupTransform(scale="mean", block=128),
    "mean_sign": sw.MeanSign(block=128),
    "ternary": sw.Ternary(),
}
Curve = list[dict[str, float]]  # losses during training, one entry per checkpoint
HELD_OUT = 20  # the last part in so many is for tests, the one before it for validation
WINDOWS = 256  # of each of these parts, for the last losses
CURVE_WINDOWS = 32  # of the validation part, for the loss during training


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="*", type=Path, help="text files; the King James Bible by default")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for checkpoint, record, model.gguf and model.sw"
    )
    parser.add_argument("--method", choices=METHODS, default="group_transform")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=8, help="windows per step, over all processes together")
    parser.add_argument("--context", type=int, default=128, help="bytes per window")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--bfloat16", action="store_true", help="mixed precision")
    parser.add_argument("--shard", action="store_true", help="FSDP2: each process keeps a part of weights and moments")
    return parser.parse_args()


def read_corpus(files: Sequence[Path]) -> bytes:
    """The bytes of the files, joined; without files, the King James Bible (1611, in the public domain)."""
    if files:
        return b"\n".join(file.read_bytes() for file in files)
    if shutil.which("bible") is None:
        raise SystemExit(
            "no text given: name text files, or install one to train on (Debian: apt-get install bible-kjv)"
        )
    return subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], capture_output=True, check=True).stdout


def split(corpus: bytes) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, one per byte, to train on, to validate on and to test on."""
    tokens = torch.frombuffer(bytearray(corpus), dtype=torch.uint8)
    part = len(tokens) // HELD_OUT
    return tokens[: -2 * part], tokens[-2 * part : -part], tokens[-part:]


def batch_of(tokens: Tensor, step: int, seed: int, count: int, length: int) -> Tensor:
    """``count`` windows of ``length + 1`` tokens; a function of seed and step, so that a resumed run sees the same."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    starts = torch.randint(len(tokens) - length - 1, (count,), generator=generator)
    return torch.stack([tokens[start : start + length + 1] for start in starts]).long()


def windows(tokens: Tensor, count: int, length: int) -> Tensor:
    """``count`` windows spread evenly over the tokens."""
    starts = torch.linspace(0, len(tokens) - length - 1, count).long()
    return torch.stack([tokens[start : start + length + 1] for start in starts]).long()


def bits_per_byte(scores: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(scores.float().flatten(0, 1), tokens.flatten()) / math.log(2)


@torch.no_grad()
def loss_of(model: nn.Module, tokens: Tensor, count: int, length: int) -> float:
    """The loss of the deployed weights, in float32, over ``count`` windows of the tokens."""
    model.eval()
    parts = windows(tokens, count, length).split(16)
    losses = [bits_per_byte(model(part[:, :-1]), part[:, 1:]) * len(part) for part in parts]
    return float(torch.stack(losses).sum()) / count


def main() -> None:
    options = arguments()
    if "RANK" not in os.environ:
        train(options, rank=0, size=1)
        return
    dist.init_process_group("gloo")
    train(options, dist.get_rank(), dist.get_world_size())
    # A sharded model refers to its group in a cycle; threads of a group that is left at exit abort the process.
    gc.collect()
    dist.destroy_process_group()


def train(options: argparse.Namespace, rank: int, size: int) -> None:
    torch.manual_seed(options.seed)
    train_tokens, validation_tokens, test_tokens = split(read_corpus(options.text))
    config = sw.models.LlamaConfig(
        hidden_size=options.width,
        intermediate_size=3 * options.width,
        num_hidden_layers=options.layers,
        max_position_embeddings=max(256, options.context),
    )
    model = sw.models.llama(config)
    method = METHODS[options.method]
    if method is not None:
        sw.binarize_(model, method=method)
    if options.shard:
        shard_(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    decay = sw.LinearDecay(total_steps=options.steps, warmup_steps=options.steps // 20)
    if method is not None:
        # Half of the steps for α, and ζ rises over the second half: relaxed weights start far from binary.
        schedule = sw.BinarizationSchedule(options.steps, t_alpha=0.5, zeta=(1.0, 6.0), zeta_ramp=0.5)
        sw.attach(optimizer, model, schedule, decay=decay)
    scheduler = None if method is not None else torch.optim.lr_scheduler.LambdaLR(optimizer, decay.learning_rate_factor)
    options.out.mkdir(parents=True, exist_ok=True)
    checkpoint = options.out / "checkpoint.pt"
    start, curve = load(checkpoint, model, optimizer, scheduler)
    for step in range(start, options.steps):
        model.train()
        tokens = batch_of(train_tokens, step, options.seed, options.batch, options.context).chunk(size)[rank]
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bfloat16):
            loss = bits_per_byte(model(tokens[:, :-1]), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        if (step + 1) % options.save_every == 0 or step + 1 == options.steps:
            validation = loss_of(model, validation_tokens, CURVE_WINDOWS, options.context)
            curve.append({"step": step + 1, "training": loss.item(), "validation": validation})
            save(checkpoint, model, optimizer, scheduler, curve, rank)
            if rank == 0:
                both = f"{loss.item():.3f} bits per byte in training, {validation:.3f} deployed in validation"
                print(f"step {step + 1}/{options.steps}  {both}", flush=True)
    losses = {
        "validation": loss_of(model, validation_tokens, WINDOWS, options.context),
        "test": loss_of(model, test_tokens, WINDOWS, options.context),
    }
    finish(model, {"bits_per_byte": losses, "curve": curve}, options, rank)


def shard_(model: sw.models.Llama) -> None:
    for block in model.model.layers:
        fully_shard(block)
    fully_shard(model)


def save(path: Path, model: nn.Module, optimizer: Any, scheduler: Any, curve: Curve, rank: int) -> None:
    weights, moments = get_state_dict(
        model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    if rank == 0:
        state = {"curve": curve, "model": weights, "optimizer": moments}
        if scheduler is not None:
            state["scheduler"] = scheduler.state_dict()
        with atomic_write(path) as file:
            torch.save(state, file)


def load(path: Path, model: nn.Module, optimizer: Any, scheduler: Any) -> tuple[int, Curve]:
    """The step to start from and the losses so far."""
    if not path.exists():
        return 0, []
    state = torch.load(path, weights_only=True)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
        options=StateDictOptions(full_state_dict=True),
    )
    if scheduler is not None:
        scheduler.load_state_dict(state["scheduler"])
    curve: Curve = state["curve"]
    return int(curve[-1]["step"]), curve


def finish(model: sw.models.Llama, result: dict[str, Any], options: argparse.Namespace, rank: int) -> None:
    """Write the record, and the files for llama.cpp and for ``signwise generate``."""
    # All processes take part in gathering what is sharded; the first one writes.
    weights = get_state_dict(model, (), options=StateDictOptions(full_state_dict=True, cpu_offload=True))[0]
    if rank != 0:
        return
    settings = {name: value for name, value in vars(options).items() if name not in ("out", "text", "save_every")}
    whole = sw.models.llama(model.config)
    binary = 0
    if (method := METHODS[options.method]) is not None:
        binary = sw.binarize_(whole, method=method).binary_weights
    whole.load_state_dict(weights)
    for _, layer in sw.binary_layers(whole):
        layer.set_progress_(alpha=1.0, zeta=6.0, progress=1.0)
    total = sum(weight.numel() for weight in whole.parameters())
    result |= {"weights": total, "binary_weights": binary, "settings": settings}
    if options.method != "ternary":  # three values do not fit into one bit
        report = sw.export.gguf(whole.eval(), options.out / "model.gguf", name=f"bytes, {options.method}")
        print(report)
        result["gguf_bytes"] = report.bytes
        sw.compile_decoder(whole).save(options.out / "model.sw")
    write_record(options.out / "record.json", result)
    print(f"test: {result['bits_per_byte']['test']:.3f} bits per byte; {options.out / 'record.json'}")


if __name__ == "__main__":
    main()
