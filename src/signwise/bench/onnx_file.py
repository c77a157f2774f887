"""A network as an ONNX file for the engines that read one, in float32 or statically quantized to 8 bits.

The 8-bit model is made as ONNX Runtime's documentation advises for x86: QuantizeLinear and DequantizeLinear around
every layer, unsigned activations, signed weights with one scale a channel, ranges by minimum and maximum.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.atomic import atomic_write
from signwise.bench.engine import Precision
from signwise.bench.network import Network
from signwise.export import to_onnx


def onnx_file(network: Network, precision: Precision, folder: Path) -> Path:
    """The path of the network's ONNX file in ``folder``, written if it is not there.

    Args:
        network: what to write.
        precision: ``"int8"`` is quantized from the float32 model, with ranges of ``network.examples``.
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
    """Write an 8-bit form of an ONNX model, quantized by ONNX Runtime's own tool."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    # It recommends a preprocessing that folds batch norm and infers shapes, both of which are done here already.
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
    """Hands the calibrator one example after the other: a batch of many would take much memory in large networks."""

    def __init__(self, examples: npt.NDArray[np.float32]) -> None:
        self._batches = iter(examples[:, None])  # (count, ...) -> batches of (1, ...)

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"input": batch}
