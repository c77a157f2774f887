"""The networks that people have: trained with one bit, compiled, in 8 bits, and beside other engines.

    python benchmarks/networks.py                         # about 5 minutes; writes results/networks.json
    python benchmarks/networks.py U-Net --parts training  # some networks, without timings; other rows stay

Each small network of ``small_networks.py`` is trained on its task for some seconds with what ``binarize_`` chooses by
default, then compiled, saved and loaded. The record says what became of it:

    bytes       of the state dict in float32, and of the file
    difference  of the program's outputs from PyTorch's on test examples, relative to the largest
    8 bits      the difference from float32 activations (mean, relative to the largest), and the accuracy of both
    time        of one example with one thread, beside the engines that are installed, all in turn
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import signwise as sw
from signwise.bench.engines import PRECISIONS, Engine
from signwise.bench.isolated import ENGINES
from signwise.bench.network import Network
from signwise.bench.timing import alternate
from signwise.errors import SignwiseError
from signwise.program import Program
from signwise.provenance import write_record

sys.path.insert(0, str(Path(__file__).parent))
small: Any = importlib.import_module("small_networks")  # beside this script, which is no package

TESTED = 1000  # examples
CALIBRATED = 64


def trained(name: str, steps: int) -> dict[str, Any]:
    """Train and compile one network, and compare its programs with the model."""
    network = small.NETWORKS[name]
    made = small.train(network, steps)
    examples, target = network.task(TESTED, seed=1, test=True)
    with torch.no_grad():
        expected = torch.cat([made.model(part) for part in examples.split(100)]).numpy()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.sw"
        sw.compile(made.model, examples[:2]).save(path)
        program, file_bytes = Program.load(path), path.stat().st_size
    given = small.as_array(examples)
    quantized = program.quantize(small.as_array(network.task(CALIBRATED, seed=0)[0]))
    found, rounded = _run(program, given), _run(quantized, given)
    largest = float(np.abs(expected).max())
    state = made.model.state_dict()
    return {
        "name": name,
        "reads": network.reads,
        "first_loss": float(np.mean(made.losses[:10])),
        "last_loss": float(np.mean(made.losses[-10:])),
        "state_bytes": sum(tensor.nbytes for tensor in state.values() if tensor.is_floating_point()),
        "file_bytes": file_bytes,
        "difference": float(np.abs(found - expected).max()) / largest,
        "int8_difference": float(np.abs(rounded - found).mean()) / largest,
        "loss": {"float32": _loss(network, found, target), "int8": _loss(network, rounded, target)},
        "accuracy": {
            "float32": network.accuracy(torch.from_numpy(found), target),
            "int8": network.accuracy(torch.from_numpy(rounded), target),
        },
    }


def timed(name: str, engines: Sequence[Engine], seconds: float) -> list[dict[str, Any]]:
    """The times of one network with random weights: speed does not depend on them."""
    program, given = small.untrained(small.NETWORKS[name], examples=16)
    return times(Network(float32=program, int8=program.quantize(given), examples=given), engines, seconds)


def times(network: Network, engines: Sequence[Engine], seconds: float) -> list[dict[str, Any]]:
    """One row per engine and precision: the seconds of one example with one thread, or why the engine cannot run it."""
    rows: list[dict[str, Any]] = []
    actions = {}
    with tempfile.TemporaryDirectory() as folder:
        for precision in PRECISIONS:
            for engine in engines:
                if precision not in engine.precisions:
                    continue
                row: dict[str, Any] = {"engine": engine.title, "precision": precision, "ours": engine.ours}
                try:
                    path = engine.convert(network, precision, Path(folder))
                    run = engine.open(path, precision, batch=1, threads=1)
                    run(network.examples[:1])
                except Exception as error:  # engines raise what they like
                    rows.append(row | {"failure": (str(error).strip() or type(error).__name__).splitlines()[0][:200]})
                    continue
                actions[len(rows)] = partial(run, network.examples[:1])
                rows.append(row)
        for index, timing in alternate(actions, seconds=seconds).items() if actions else ():
            rows[index]["seconds"] = timing.best
    return rows


def _run(program: Program, examples: Any) -> Any:
    session = program.session(1)
    return np.concatenate([session(examples[start : start + 100]) for start in range(0, len(examples), 100)])


def _loss(network: Any, outputs: Any, target: torch.Tensor) -> float:
    return float(network.loss(torch.from_numpy(outputs), target))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help="parts of names; all networks by default")
    parser.add_argument("--steps", type=int, default=150, help="of training")
    parser.add_argument("--seconds", type=float, default=6.0, help="of timing per network")
    parser.add_argument("--parts", default="training,times", help="training, times, or both (the default)")
    parser.add_argument("--out", type=Path, default=Path("results/networks.json"), help="the record")
    parser.add_argument("--no-record", action="store_true", help="print only")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    engines = [engine for engine in ENGINES.values() if not engine.missing()]
    made: dict[str, dict[str, Any]] = {}
    for name in small.NETWORKS:
        if arguments.networks and not any(part in name for part in arguments.networks):
            continue
        made[name] = {"name": name}
        try:
            if "training" in arguments.parts:
                made[name] |= trained(name, arguments.steps)
            if "times" in arguments.parts:
                made[name]["times"] = timed(name, engines, arguments.seconds)
        except SignwiseError as error:
            raise SystemExit(f"{name}: {error}") from None
        print(made[name], flush=True)
    if not arguments.no_record:  # parts of networks replace only what they measured
        rows = json.loads(arguments.out.read_text())["networks"] if arguments.out.exists() else []
        known = {row["name"]: row for row in rows}
        merged = [known.get(name, {}) | made.get(name, {}) for name in small.NETWORKS if name in {*known, *made}]
        record = {"steps": arguments.steps, "tested": TESTED, "networks": merged}
        write_record(arguments.out, record, "onnxruntime", "openvino", "MNN")


if __name__ == "__main__":
    main()
