"""From a trained PyTorch model to a program: trace, fold, fuse, pack, and quantize activations where asked."""

from __future__ import annotations

from signwise.compiler.build import compile  # noqa: A004 - the name that users know from PyTorch

__all__ = ["compile"]
