"""The browser runtime: bytes as stored and compressed, its outputs beside the native library's, and its time in Node.

    python benchmarks/web.py             sizes and outputs
    python benchmarks/web.py --time      also the time per image; on an idle machine

Writes ``results/web.json``. Needs node, and ``web/signwise.wasm`` from ``make wasm``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import signwise as sw
from signwise import datasets, shipped
from signwise.export.browser import RUNTIME, web_folder
from signwise.provenance import write_record

ROOT = Path(__file__).resolve().parent.parent
IMAGES = 1000

TIMING = """
const { load } = await import(process.argv[1]);
const { readFile } = await import("node:fs/promises");
const model = await load(await readFile(process.argv[2]));
const image = new Float32Array(model.inputShape.reduce((a, b) => a * b, 1)).fill(100);
const times = [];
for (let i = 0; i < 3000; ++i) {
  const start = performance.now();
  model.run(image);
  times.push(performance.now() - start);
}
// The compiler of the engine optimizes while the first runs go on.
const warm = times.slice(1000).sort((a, b) => a - b);
console.log(JSON.stringify({ milliseconds: warm[warm.length >> 1], node: process.version.slice(1) }));
"""


def sizes(model: Path) -> dict[str, dict[str, int]]:
    """Bytes of each file that a page has to load, as they are and compressed for the way."""
    paths = [*(web_folder() / name for name in RUNTIME if not name.endswith(".d.ts")), model]
    return {
        path.name: {"bytes": path.stat().st_size, "gzip": len(gzip.compress(path.read_bytes(), 9, mtime=0))}
        for path in paths
    }


def run_in_node(model: Path, images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The scores of images in Node."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder) / "inputs", Path(folder) / "outputs"
        inputs.write_bytes(images.astype("<f4").tobytes())
        command = ["node", str(ROOT / "tests" / "web" / "run_model.mjs"), str(model), str(outputs), str(inputs)]
        subprocess.run(command, check=True, capture_output=True)
        return np.fromfile(outputs, "<f4").reshape(len(images), -1)


def compare(model: Path) -> dict[str, Any]:
    """The classes and scores of test images, here and in Node."""
    images = datasets.load("mnist").test_images[:IMAGES]
    expected, found = sw.load(model, threads=1)(images), run_in_node(model, images)
    same = int((found.argmax(axis=1) == expected.argmax(axis=1)).sum())
    return {"images": IMAGES, "same_class": same, "largest_difference": float(np.abs(found - expected).max())}


def time_in_node(model: Path) -> Any:
    """Milliseconds per image, median, once the engine has optimized the code."""
    command = ["node", "--input-type=module", "-e", TIMING, str(web_folder() / "signwise.js"), str(model)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--time", action="store_true", help="also measure the time per image")
    parser.add_argument("--record", type=Path, default=ROOT / "results" / "web.json", help="where the record goes")
    arguments = parser.parse_args()
    model = shipped.resolve("lenet5-mnist-1bit")
    result: dict[str, Any] = {"files": sizes(model), "compared": compare(model)}
    if arguments.time:
        result["timed"] = time_in_node(model)
    print(json.dumps(result, indent=1))
    write_record(arguments.record, result)


if __name__ == "__main__":
    main()
