"""Programs in other people's formats."""

from __future__ import annotations

from signwise.export.onnx import to_onnx

__all__ = ["to_onnx"]
