"""Running prepared programs: the native library (:mod:`.native`) and :class:`Session`. numpy only, never PyTorch.

This package knows the C interface and arrays, and nothing of :mod:`signwise.program`: a session prepares whatever
offers the few things that :class:`~signwise.runtime.session.Runnable` lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from signwise.runtime.session import Session

if TYPE_CHECKING:
    from signwise.program import load

__all__ = ["Session", "load"]


def __getattr__(name: str) -> Any:
    if name == "load":  # the older name of signwise.load
        import signwise

        return signwise.load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
