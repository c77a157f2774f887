"""Time, memory and bytes of packed networks beside PyTorch, ONNX Runtime, OpenVINO and MNN.

    python benchmarks/inference.py                          # 15 minutes; writes results/inference/PROCESSOR.json
    python benchmarks/inference.py --networks resnet18      # one network

Every network is measured in a process of its own: batch 1 and 16, one thread and two, float32 and int8, all engines in
turn. On x86-64 Linux with AVX-512, ResNet-18 is measured once more with everything beyond AVX2 hidden from every
engine, ours included: that is the processor most people have. Not every machine can hide it.

The networks have random weights, because speed, memory and size do not depend on them. The other engines get them with
float32 weights and batch norm folded.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from signwise import compiler, models
from signwise.bench.isolated import ENGINES
from signwise.bench.measure import Plan, compare
from signwise.bench.network import Network, random_input
from signwise.bench.report import as_data, table
from signwise.convert import binarize_, first_and_last, last
from signwise.methods import GroupTransform
from signwise.provenance import processor, write_record
from signwise.schedule import BinarizationSchedule

NETWORKS = ("lenet5", "vgg_small", "resnet18", "wrn28_10", "dense4096")
# Seconds per batch size and number of threads; large networks take longer anyway.
SECONDS = {"lenet5": 4.0, "vgg_small": 24.0, "resnet18": 45.0, "wrn28_10": 40.0, "dense4096": 4.0}
HIDE = Path(__file__).with_name("hide_avx512.c")
INPUT_SHAPES = {"lenet5": (1, 28, 28)}
_CIFAR_SHAPE = (3, 32, 32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Untrained:
    """A network with random weights, and what its PyTorch model says about it.

    Args:
        network: the compiled forms.
        state_dict_bytes: the size of the float32 model's ``state_dict``.
        difference: the largest difference between the outputs of the packed file and of the PyTorch model with weights
            sign(φ), relative to the largest output.
    """

    network: Network
    state_dict_bytes: int
    difference: float


def untrained(name: str) -> Untrained:
    """One of the paper's networks with random binary weights and batch-norm statistics to match; takes raw pixels."""
    torch.manual_seed(0)
    shape = INPUT_SHAPES.get(name, _CIFAR_SHAPE)
    bare = models.MODELS[name]()
    state_dict_bytes = _float_bytes(bare)
    binarize_(bare, skip=last if name == "lenet5" else first_and_last, method=GroupTransform())
    model = nn.Sequential(models.Standardize([0.5] * shape[0], [0.25] * shape[0]), bare)
    _fit_statistics(model, shape)
    return _compiled(model, shape, state_dict_bytes)


def dense(size: int) -> Untrained:
    """One binary dense layer with ``size`` inputs and outputs."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(size, size, bias=False))
    state_dict_bytes = _float_bytes(model)
    binarize_(model, skip=(), method=GroupTransform())
    return _compiled(model.eval(), (size,), state_dict_bytes)


def _float_bytes(model: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in model.state_dict().values() if tensor.is_floating_point())


def _fit_statistics(model: nn.Module, shape: tuple[int, ...]) -> None:
    """Set the batch-norm statistics to those of one batch through the model with binary weights."""
    BinarizationSchedule(total_steps=1).apply_(model, 1)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randint(0, 256, (8, *shape)).float())
    model.eval()


def _compiled(model: nn.Module, shape: tuple[int, ...], state_dict_bytes: int) -> Untrained:
    zeros = torch.zeros(1, *shape)
    program = compiler.compile(model, zeros)
    examples = random_input(program, 4)
    network = Network(float32=program, int8=program.quantize(examples), examples=examples)
    with torch.inference_mode():
        expected = model(torch.from_numpy(examples)).numpy()
    difference = float(np.abs(program(examples) - expected).max() / np.abs(expected).max())
    return Untrained(network=network, state_dict_bytes=state_dict_bytes, difference=difference)


def record_path(results: Path, processor: str) -> Path:
    """The file for a processor.

    Args:
        results: the folder of all records.
        processor: its name, as the system reports it.

    Example:
        >>> record_path(Path("results"), "Intel(R) Xeon(R) Processor").as_posix()
        'results/inference/intel-xeon-processor.json'
    """
    words = re.findall("[a-z0-9]+", re.sub(r"\((r|tm)\)", " ", processor.lower()))
    return results / "inference" / f"{'-'.join(words)}.json"


def measure(name: str, engines: Sequence[str], threads: Sequence[int]) -> dict[str, Any]:
    """Measure one network in this process."""
    built: Untrained = dense(4096) if name == "dense4096" else untrained(name)
    chosen = [ENGINES[engine] for engine in engines if not ENGINES[engine].missing()]
    batches = (1,) if name == "dense4096" else (1, 16)
    plan = Plan(engines=chosen, batches=batches, threads=threads, seconds=SECONDS[name])
    comparison = compare(built.network, plan, lambda line: print(f"  {line}", file=sys.stderr, flush=True))
    print(f"{name}\n{table(comparison)}\n", flush=True)
    return as_data(comparison) | {
        "state_dict_bytes": built.state_dict_bytes,
        "difference_from_pytorch": built.difference,
    }


def measure_apart(name: str, words: Sequence[str], environment: dict[str, str]) -> dict[str, Any]:
    """Measure one network in a process of its own, with extra environment variables."""
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder, "part.json")
        command = [sys.executable, __file__, "--only", name, "--out", str(part), *words]
        subprocess.run(command, check=True, env=os.environ | environment)
        measured: dict[str, Any] = json.loads(part.read_text())
        return measured


def hide_avx512(folder: Path) -> dict[str, str] | None:
    """The environment in which every engine sees a processor with AVX2 only, or ``None`` if nothing can be hidden."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return None
    if "avx512f" not in Path("/proc/cpuinfo").read_text():
        return None
    library = folder / "hide_avx512.so"
    environment = {"LD_PRELOAD": str(library), "SIGNWISE_ISA": "avx2"}
    try:
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(HIDE), "-o", str(library)], check=True)
        subprocess.run([sys.executable, "-c", ""], check=True, env=os.environ | environment)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"AVX-512 cannot be hidden here; skipping that part: {error}", file=sys.stderr)
        return None
    return environment


def best(measured: dict[str, Any], engine: str, precision: str, batch: int, threads: int) -> float | None:
    """The best time of an engine, if it was measured."""
    for row in measured["rows"]:
        if (row["engine"], row["precision"]) == (engine, precision):
            times = {(entry["batch"], entry["threads"]): float(entry["best"]) for entry in row["times"]}
            return times.get((batch, threads))
    return None


def ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


def figures(networks: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """The few numbers that summarize a record."""
    found: dict[str, float | None] = {}
    for name, measured in networks.items():
        packed = next(row for row in measured["rows"] if row["engine"] == "signwise")
        found[f"{name}: state_dict bytes / file bytes"] = measured["state_dict_bytes"] / packed["file_bytes"]
        found[f"{name}: difference from PyTorch, relative"] = measured["difference_from_pytorch"]
        for entry in measured["speedups"]:
            where = f"{entry['precision']}, batch {entry['batch']}, threads {entry['threads']}"
            found[f"{name}: speed / fastest other engine, {where}"] = entry["over_fastest"]
        memory = {row["engine"]: row["memory_bytes"] for row in measured["rows"] if row["precision"] == "float32"}
        found[f"{name}: memory / ONNX Runtime's"] = ratio(packed["memory_bytes"], memory.get("onnxruntime"))
        times = [best(measured, "signwise", "float32", 16, threads) for threads in (1, 2)]
        found[f"{name}: speed of 2 threads / 1 thread, batch 16"] = ratio(*times)
        if name == "dense4096":
            for threads in (1, 2):
                times = [best(measured, engine, "float32", 1, threads) for engine in ("pytorch", "signwise")]
                found[f"{name}: speed / PyTorch, one row, threads {threads}"] = ratio(*times)
    return {what: value for what, value in found.items() if value is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS, help="which (all)")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, help="which (all but numpy)")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="numbers of threads (1 2)")
    parser.add_argument(
        "--out", type=Path, help="where the record goes (a file for this processor in results/inference)"
    )
    parser.add_argument("--no-avx2", action="store_true", help="skip the part with AVX-512 hidden")
    parser.add_argument("--only", choices=NETWORKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    engines = arguments.engines or [name for name in ENGINES if name != "numpy"]
    if arguments.only is not None:
        arguments.out.write_text(json.dumps(measure(arguments.only, engines, arguments.threads)))
        return

    words = ["--engines", *engines, "--threads", *map(str, arguments.threads)]
    networks = {name: measure_apart(name, words, {}) for name in arguments.networks}
    record: dict[str, Any] = {"networks": networks, "figures": figures(networks)}
    with tempfile.TemporaryDirectory() as folder:
        environment = None if arguments.no_avx2 else hide_avx512(Path(folder))
        if environment is not None and "resnet18" in networks:
            print("AVX-512, AVX-VNNI and AMX hidden from every engine:\n", flush=True)
            hidden = {"resnet18": measure_apart("resnet18", words, environment)}
            record["avx2"] = {"networks": hidden, "figures": figures(hidden)}
    out = arguments.out or record_path(Path("results"), processor())
    write_record(out, record, "onnx", "onnxruntime", "openvino", "mnn")
    for part in (record, *([record["avx2"]] if "avx2" in record else [])):
        print("figures:" if part is record else "figures with AVX2 alone:")
        for what, value in part["figures"].items():
            print(f"  {what}: {value:.3g}")


if __name__ == "__main__":
    main()
