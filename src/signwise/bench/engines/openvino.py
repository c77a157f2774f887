"""OpenVINO on the CPU, tuned for latency."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise.bench.engines.engine import Engine, Precision, Runner
from signwise.bench.engines.onnxruntime import onnx_file
from signwise.bench.network import Network


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
        shape = model.inputs[0].get_partial_shape()
        shape[0] = batch
        model.reshape(shape)
        properties = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads,
            # Without this, processors with bfloat16 units compute float32 layers in bfloat16.
            "INFERENCE_PRECISION_HINT": "f32",
        }
        request = core.compile_model(model, "CPU", properties).create_infer_request()

        def run(examples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            outputs: npt.NDArray[np.float32] = request.infer([examples], share_inputs=True)[0]
            return outputs

        return run
