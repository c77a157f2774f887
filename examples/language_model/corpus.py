"""A text to train on, as bytes: any files, or the King James Bible of the Debian package ``bible-kjv``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

HELD_OUT = 20  # one part in so many, the last, is kept for validation


def read_corpus(files: Sequence[Path]) -> bytes:
    """The bytes of the files, joined; without files, the King James Bible (1611, in the public domain)."""
    if files:
        return b"\n".join(file.read_bytes() for file in files)
    if shutil.which("bible") is None:
        raise SystemExit(
            "no text given: name text files, or install one to train on (Debian: apt-get install bible-kjv)"
        )
    return subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], capture_output=True, check=True).stdout


def split(corpus: bytes) -> tuple[Tensor, Tensor]:
    """Tokens to train on and to validate on: one token per byte."""
    tokens = torch.frombuffer(bytearray(corpus), dtype=torch.uint8)
    kept = len(tokens) - len(tokens) // HELD_OUT
    return tokens[:kept], tokens[kept:]


def batch_of(tokens: Tensor, step: int, seed: int, count: int, length: int) -> Tensor:
    """``count`` windows of ``length + 1`` tokens; a function of seed and step, so that a resumed run sees the same."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    starts = torch.randint(len(tokens) - length - 1, (count,), generator=generator)
    return torch.stack([tokens[start : start + length + 1] for start in starts]).long()


def windows(tokens: Tensor, count: int, length: int) -> Tensor:
    """``count`` windows spread evenly over the tokens."""
    starts = torch.linspace(0, len(tokens) - length - 1, count).long()
    return torch.stack([tokens[start : start + length + 1] for start in starts]).long()
