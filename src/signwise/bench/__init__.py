"""The packed file beside what other engines make of the same network: time, memory, bytes."""

from __future__ import annotations

from signwise.bench.engine import Engine
from signwise.bench.mnn_engine import Mnn
from signwise.bench.onnxruntime_engine import OnnxRuntime
from signwise.bench.openvino_engine import OpenVino
from signwise.bench.signwise_engine import Numpy, Signwise
from signwise.bench.torch_engine import PyTorch

ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (Signwise(), PyTorch(), OnnxRuntime(), OpenVino(), Mnn(), Numpy())
}
"""Every engine by its name, ours first."""

__all__ = ["ENGINES", "Engine"]
