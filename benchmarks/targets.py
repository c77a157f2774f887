"""One network on every target that runs here: bytes, milliseconds per image and errors.

    python -m benchmarks.targets         on an idle machine; needs onnxruntime, openvino, node and web/signwise.wasm

Writes ``results/targets.json``. Every engine uses one thread and reads one image at a time; the errors are those of all
test images. Microcontrollers, where instructions are counted instead, are in ``benchmarks/exports.py``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import openvino
from benchmarks.web import run_in_node, time_in_node

import signwise as sw
from signwise import shipped
from signwise.provenance import write_record

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ("lenet5-mnist-1bit", "tiny_cnn-mnist-1bit")
SECONDS = 2.0
BATCH = 500

Images = npt.NDArray[Any]


def milliseconds(run: Callable[[Images], Images], image: Images) -> float:
    """The median time of a call, after as many calls to warm up."""
    times: list[float] = []
    for _ in range(2):
        times = []
        while sum(times) < SECONDS / 2:
            start = time.perf_counter()
            run(image)
            times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def in_batches(run: Callable[[Images], Images], images: Images) -> Images:
    """The outputs of all images."""
    return np.concatenate([run(images[begin : begin + BATCH]) for begin in range(0, len(images), BATCH)])


def in_onnxruntime(model: bytes) -> Callable[[Images], Images]:
    """The model in ONNX Runtime as it comes, with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda images: np.asarray(session.run(None, {"input": images})[0])


def in_openvino(model: bytes) -> Callable[[Images], Images]:
    """The model in OpenVINO as it comes, with one thread."""
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model, b""), "CPU", {"INFERENCE_NUM_THREADS": 1})
    request = compiled.create_infer_request()
    return lambda images: np.array(request.infer({0: images})[0])


def measure(name: str) -> list[dict[str, Any]]:
    """A row for each engine."""
    program, path, data = sw.Program.load(name), shipped.resolve(name), sw.datasets.load("mnist")
    images = data.test_images.astype(np.float32)

    def row(target: str, size: int, taken: float, outputs: Images) -> dict[str, Any]:
        error = 100 * float((outputs.argmax(axis=1) != data.test_labels).mean())
        found = {"network": name, "target": target, "bytes": size, "milliseconds": taken, "error": error}
        print(json.dumps(found), flush=True)
        return found

    rows = []
    native = sw.load(path, threads=1)
    rows.append(row("native", path.stat().st_size, milliseconds(native, images[:1]), in_batches(native, images)))
    with tempfile.TemporaryDirectory() as folder:
        sw.export.onnx(program, Path(folder) / "net.onnx")
        model = (Path(folder) / "net.onnx").read_bytes()
    for target, run in (("onnxruntime", in_onnxruntime(model)), ("openvino", in_openvino(model))):
        rows.append(row(target, len(model), milliseconds(run, images[:1]), in_batches(run, images)))
    taken = time_in_node(path)
    rows.append(
        row("wasm", path.stat().st_size, taken["milliseconds"], run_in_node(path, images)) | {"node": taken["node"]}
    )
    return rows


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", type=Path, default=ROOT / "results" / "targets.json", help="where the record goes")
    arguments = parser.parse_args()
    rows = [row for name in NETWORKS for row in measure(name)]
    write_record(arguments.record, {"targets": rows}, "onnxruntime", "openvino", "onnx")


if __name__ == "__main__":
    main()
