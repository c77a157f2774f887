"""The engines that read ONNX files: ONNX Runtime with every optimization on, and OpenVINO tuned for latency.

The 8-bit model, which both run, follows ONNX Runtime's advice for x86: QuantizeLinear and DequantizeLinear around every
layer, unsigned activations, signed weights with one scale per channel, ranges from minimum and maximum.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.atomic import atomic_write
from signwise.bench.engines import Engine, Precision, Runner
from signwise.bench.network import Network, listed
from signwise.export import to_onnx
from signwise.program.program import Examples


class OnnxRuntime(Engine):
    """Float32, and 8 bits by its static quantization."""

    name = "onnxruntime"
    title = "ONNX Runtime"
    requires = ("onnxruntime", "onnx")

    def convert(self, network: Network, precision: Precision, folder: Path) -> Path:
        return onnx_file(network, precision, folder)

    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_free_dimension_override_by_name("batch", batch)
        # Threads spin during a run, which is faster, and stop after it, which leaves the cores to the other engines.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        names = [given.name for given in session.get_inputs()]

        def run(examples: Examples) -> npt.NDArray[np.float32]:
            outputs: npt.NDArray[np.float32] = session.run(None, dict(zip(names, listed(examples), strict=True)))[0]
            return outputs

        return run


class OpenVino(Engine):
    """Float32, and 8 bits from the model that ONNX Runtime's tool quantizes."""

    name = "openvino"
    title = "OpenVINO"
    requires = ("openvino", "onnxruntime", "onnx")

    def convert(self, network: Network, precision: Precision, folder: Path) -> Path:
        return onnx_file(network, precision, folder)

    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        import openvino

        core = openvino.Core()
        model = core.read_model(path)
        shapes = {given: given.get_partial_shape() for given in model.inputs}
        for shape in shapes.values():
            shape[0] = batch
        model.reshape(shapes)
        properties = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads,
            # Without this, processors with bfloat16 units compute float32 layers in bfloat16.
            "INFERENCE_PRECISION_HINT": "f32",
        }
        request = core.compile_model(model, "CPU", properties).create_infer_request()

        def run(examples: Examples) -> npt.NDArray[np.float32]:
            outputs: npt.NDArray[np.float32] = request.infer(list(listed(examples)), share_inputs=True)[0]
            return outputs

        return run


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
            file.write(to_onnx(network.float32, packed=False))
    else:
        quantize_onnx(onnx_file(network, "float32", folder), path, network.examples)
    return path


def quantize_onnx(source: Path, target: Path, examples: Examples) -> None:
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

    def __init__(self, examples: Examples) -> None:
        arrays = listed(examples)
        self._names = ["input"] if len(arrays) == 1 else [f"input{number}" for number in range(len(arrays))]
        self._batches = iter(zip(*(array[:, None] for array in arrays), strict=True))  # (count, ...) -> (1, ...)

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self._batches, None)
        return None if batch is None else dict(zip(self._names, batch, strict=True))
