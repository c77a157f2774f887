"""ONNX Runtime on the CPU with every optimization on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise.bench.engines.engine import Engine, Precision, Runner
from signwise.bench.engines.onnx_file import onnx_file
from signwise.bench.network import Network


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

        def run(examples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            outputs: npt.NDArray[np.float32] = session.run(["output"], {"input": examples})[0]
            return outputs

        return run
