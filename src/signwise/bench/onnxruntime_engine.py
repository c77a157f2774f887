"""ONNX Runtime on the CPU, every optimization on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise.bench.engine import Engine, Precision, Runner
from signwise.bench.network import Network
from signwise.bench.onnx_file import onnx_file


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
        # Its threads spin within a run, which is faster, and stop after it, which leaves the processor to the others.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def run(examples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            answers: npt.NDArray[np.float32] = session.run(["output"], {"input": examples})[0]
            return answers

        return run
