"""The engines that the benchmark can time, one file each."""

from __future__ import annotations

from signwise.bench.engines.engine import PRECISIONS, Engine, Precision, Runner
from signwise.bench.engines.mnn import Mnn
from signwise.bench.engines.onnxruntime import OnnxRuntime
from signwise.bench.engines.openvino import OpenVino
from signwise.bench.engines.pytorch import PyTorch
from signwise.bench.engines.signwise import Numpy, Signwise

ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (Signwise(), PyTorch(), OnnxRuntime(), OpenVino(), Mnn(), Numpy())
}
"""Every engine by its name, ours first."""

__all__ = ["ENGINES", "PRECISIONS", "Engine", "Precision", "Runner"]
