"""From a trained PyTorch model to a program.

build.py        compile: evaluation form, trace, fuse, pack
trace.py        walks the graph of torch.export
translate.py    one function per PyTorch operator
builder.py      the draft that translations write and rules rewrite
fuse.py         rules that leave fewer operations with the same meaning
verify.py       refuses a program whose outputs are not the model's
"""

from __future__ import annotations

from signwise.compiler.build import compile  # noqa: A004 - the name that users know from PyTorch

__all__ = ["compile"]
