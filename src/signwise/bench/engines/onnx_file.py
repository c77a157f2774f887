"""A network as an ONNX file for the engines that read one, in float32 or statically quantized to 8 bits.

The 8-bit model follows ONNX Runtime's advice for x86: QuantizeLinear and DequantizeLinear around every layer, unsigned
activations, signed weights with one scale per channel, ranges from minimum and maximum.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.atomic import atomic_write
from signwise.bench.engines.engine import Precision
from signwise.bench.network import Network
from signwise.export import to_onnx


def onnx_file(network: Network, precision: Precision, folder: Path) -> Path:
    """Write the network as an ONNX file in ``folder``, unless it is already there, and return its path.

    Args:
        network: what to write.
        precision: ``"int8"`` is quantized from the float32 model, with ranges from ``network.examples``.
        folder: where it goes.
    """
    path = folder / f"{precision}.onnx"
    if path.exists():
        return path
    if precision == "float32":
        with atomic_write(path) as file:
            file.write(to_onnx(network.float32))
    else:
        quantize_onnx(onnx_file(network, "float32", folder), path, network.examples)
    return path


def quantize_onnx(source: Path, target: Path, examples: npt.NDArray[np.float32]) -> None:
    """Quantize an ONNX model to 8 bits with ONNX Runtime's own tool."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    # It warns that batch norm should be folded and shapes inferred first; the export has done both.
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    partial = target.with_suffix(".part")
    try:
        quantize_static(
            source,
            partial,
            _Examples(examples),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            calibrate_method=CalibrationMethod.MinMax,
        )
        partial.replace(target)
    finally:
        root.setLevel(level)
        partial.unlink(missing_ok=True)


class _Examples:
    """Feeds the calibrator one example at a time: a large batch would take much memory in large networks."""

    def __init__(self, examples: npt.NDArray[np.float32]) -> None:
        self._batches = iter(examples[:, None])  # (count, ...) -> batches of (1, ...)

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"input": batch}
