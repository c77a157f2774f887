"""The page in headless Chromium, and the exported ONNX model in onnxruntime-web: what people see in their browsers."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import signwise as sw
from signwise import datasets, export, shipped
from signwise.program import operations as ops
from signwise.program.program import Program

HERE = Path(__file__).parent
WASM = HERE.parent.parent / "web" / "signwise.wasm"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_modules = pytest.mark.skipif(
    shutil.which("node") is None or "SIGNWISE_NODE_MODULES" not in os.environ, reason="run by make test-web"
)
needs_page = pytest.mark.skipif(CHROMIUM is None or not WASM.exists(), reason="needs chromium and signwise.wasm")


def node(script: str, *arguments: object) -> Any:
    command = ["node", str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def color_program() -> Program:
    """Ten classes by the mean of each colour: enough for the tab of dropped images."""
    weight = np.zeros((10, 3), np.float32)
    weight[8, 2] = 0.1  # blue
    operations = (
        ops.GlobalPool(inputs=(0,)),
        ops.Dense(inputs=(1,), weight="w", bits=32, out_features=10, in_features=3),
    )
    about = {"dataset": "cifar10"}
    return Program(input_shape=(3, 32, 32), ops=operations, output=2, tensors={"w": weight}, about=about)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The page with digits and a network for colours, served on a free port; and the folder."""
    digits = Program.load("lenet5-mnist-1bit")
    export.wasm({"digits": digits, "colours": color_program()}, tmp_path)
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", tmp_path
        server.shutdown()
        thread.join()


@needs_modules
@needs_page
@pytest.mark.slow
def test_drawing_a_digit_on_the_page_shows_its_class(site: tuple[str, Path]) -> None:
    image = pytest.importorskip("PIL.Image")
    url, folder = site
    image.new("RGB", (90, 60), (10, 20, 240)).save(folder / "photo.png")
    seen = node("browser.mjs", url, CHROMIUM, folder)
    assert seen["problems"] == []
    assert seen["origins"] == [url.rstrip("/")], "the page works offline: it asks nobody else"
    assert seen["empty"] == seen["cleared"] == "Draw something."
    assert seen["seven"].startswith("7 (") and seen["keyboard"].startswith("1 (")
    assert "ms per image" in seen["figures"] and "network 81 KB" in seen["figures"]
    assert sum(float(share.split()[0]) for share in seen["shares"]) == pytest.approx(100, abs=0.6)
    right = sum(answer.startswith(f"{digit} (") for digit, answer in enumerate(seen["examples"]))
    assert right == 10, seen["examples"]
    assert seen["phoneOverflow"] <= 0 and seen["tabsShown"] and seen["tabs"] == ["digits", "colours"]
    assert seen["photo"].startswith("ship (") and seen["photoOverflow"] <= 0
    if kept := os.environ.get("SIGNWISE_SCREENSHOTS"):
        for path in folder.glob("*.png"):
            shutil.copy(path, kept)


@needs_modules
@pytest.mark.slow
def test_the_packed_onnx_model_runs_in_onnxruntime_web(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    program = Program.load(shipped.resolve("lenet5-mnist-1bit"))
    export.onnx(program, tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").stat().st_size < 100_000, "packed"
    images = datasets.load("mnist").test_images[:100]
    (tmp_path / "inputs").write_bytes(images.astype("<f4").tobytes())
    node("onnx.mjs", tmp_path / "net.onnx", tmp_path / "inputs", tmp_path / "outputs")
    found = np.fromfile(tmp_path / "outputs", "<f4").reshape(100, 10)
    np.testing.assert_allclose(found, sw.load("lenet5-mnist-1bit")(images), rtol=1e-3, atol=1e-3)
