"""What binary weights bring: time, memory and bytes beside PyTorch, ONNX Runtime, OpenVINO and MNN.

    python benchmarks/inference.py                          # 15 minutes; writes results/inference/PROCESSOR.json
    python benchmarks/inference.py --networks resnet18      # one network

Every network is measured in a process of its own: batch 1 and 16, one thread and two, float32 and int8, all engines in
turn. On x86-64 Linux with AVX-512 the same is done once more for ResNet-18 with all that goes beyond AVX2 hidden from
every engine, our own included: that is the processor that most people have. Not every machine can hide it.

The networks have random weights; the other engines get them with float32 weights and batch norm folded.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from signwise.bench.records import record_path
from signwise.bench.untrained import Untrained, dense, untrained

from signwise.bench import ENGINES
from signwise.bench.measure import Plan, compare
from signwise.bench.report import as_data, table
from signwise.provenance import processor, write_record

NETWORKS = ("lenet5", "vgg_small", "resnet18", "wrn28_10", "dense4096")
# Time for each batch size and number of threads; large networks take longer by themselves.
SECONDS = {"lenet5": 4.0, "vgg_small": 24.0, "resnet18": 45.0, "wrn28_10": 40.0, "dense4096": 4.0}
HIDE = Path(__file__).with_name("hide_avx512.c")


def measure(name: str, engines: Sequence[str], threads: Sequence[int]) -> dict[str, Any]:
    """Everything about one network, in this process."""
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
    """The same in a process of its own, with more in its environment."""
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder, "part.json")
        command = [sys.executable, __file__, "--only", name, "--out", str(part), *words]
        subprocess.run(command, check=True, env=os.environ | environment)
        measured: dict[str, Any] = json.loads(part.read_text())
        return measured


def hide_avx512(folder: Path) -> dict[str, str] | None:
    """The environment in which every engine sees a processor that ends at AVX2, where there is more to hide."""
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
        print(f"AVX-512 cannot be hidden here, so that part is left out: {error}", file=sys.stderr)
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
    """The few numbers that sum it up."""
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
    parser.add_argument("--no-avx2", action="store_true", help="leave out the part with AVX-512 hidden")
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
