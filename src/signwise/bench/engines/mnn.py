"""MNN on the CPU; its converter chooses Winograd convolutions where it finds them faster."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise.bench.engines import Engine, Precision, Runner
from signwise.bench.engines.onnx import onnx_file
from signwise.bench.network import Network, listed
from signwise.errors import SignwiseError
from signwise.program.program import Examples


class Mnn(Engine):
    """Float32 at high precision, and 8-bit weights (`--weightQuantBits 8`) with activations quantized at run time."""

    name = "mnn"
    title = "MNN"
    requires = ("MNN", "onnx")

    def convert(self, network: Network, precision: Precision, folder: Path) -> Path:
        source, path = onnx_file(network, "float32", folder), folder / f"{precision}.mnn"
        if path.exists():
            return path
        partial = path.with_suffix(".part")
        arguments = ["-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(partial), "--bizCode", "signwise"]
        if precision == "int8":
            arguments += ["--weightQuantBits", "8"]
        with _silence():
            # Not `MNN.tools.mnnconvert`: that wrapper installs and calls a logging service.
            import _tools

            _tools.mnnconvert(["mnnconvert", *arguments])
        if not partial.exists():
            raise SignwiseError(f"MNN could not convert the {precision} model")
        partial.replace(path)
        return path

    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        with _silence():
            import MNN

            interpreter = MNN.Interpreter(str(path))
            mode = {"precision": "high"} if precision == "float32" else {"precision": "low", "memory": "low"}
            session = interpreter.createSession({"backend": "CPU", "numThread": threads, **mode})
            found = interpreter.getSessionInputAll(session)
            count = len(found)
            inlets = [found["input" if count == 1 else f"input{number}"] for number in range(count)]
            for inlet in inlets:
                interpreter.resizeTensor(inlet, (batch, *inlet.getShape()[1:]))
            interpreter.resizeSession(session)
        outlets = interpreter.getSessionOutputAll(session)
        outlet = outlets["output" if len(outlets) == 1 else "output0"]
        layout, number = MNN.Tensor_DimensionType_Caffe, MNN.Halide_Type_Float
        outputs = np.zeros(outlet.getShape(), np.float32)

        def run(examples: Examples) -> npt.NDArray[np.float32]:
            for inlet, array in zip(inlets, listed(examples), strict=True):
                kind = MNN.Halide_Type_Int if array.dtype == np.int32 else number
                inlet.copyFrom(MNN.Tensor(array.shape, kind, array, layout))
            interpreter.runSession(session)
            received = MNN.Tensor(outputs.shape, number, outputs, layout)
            outlet.copyToHostTensor(received)
            copied: npt.NDArray[np.float32] = received.getNumpyData().copy()
            return copied

        return run


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Silence MNN, which writes its progress straight to file descriptor 1, where our tables and JSON go."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
