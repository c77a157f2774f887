"""Time, memory and bytes of packed networks beside PyTorch, ONNX Runtime, OpenVINO and MNN.

    python benchmarks/inference.py                          # 15 minutes; writes results/inference/PROCESSOR.json
    python benchmarks/inference.py --networks resnet18      # one network; the others stay in the record

The paper's networks take images of their data sets, MobileNetV2 and the U-Net 96x96 pixels. The decoder computes one
token of a text of 256, given the keys and values of those before it. The dense layer is one product of a matrix and a
vector; there the peers are also ONNX Runtime's MatMulNBits with 2 and 4 bits and, where NODE_LLAMA_CPP names the folder
in which npm has installed @node-llama-cpp/linux-x64, ggml's Q1_0.

Every network is measured in a process of its own: batch 1 and 16 (decoder and dense layer: 1), one thread and two,
float32 and int8, all engines in turn. On x86-64 Linux with AVX-512, ResNet-18 is measured once more with everything
beyond AVX2 hidden from every engine, ours included: that is the processor most people have. Not every machine can hide
it.

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
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from signwise import compiler, models
from signwise.bench.isolated import ENGINES
from signwise.bench.measure import Plan, compare
from signwise.bench.network import Network, listed, random_input
from signwise.bench.report import as_data, table
from signwise.compiler.decoder import TokenStep, compile_decoder
from signwise.convert import binarize_, first_and_last, last
from signwise.methods import GroupTransform
from signwise.program import operations as ops
from signwise.program.program import Program
from signwise.provenance import now, processor, revision, write_record
from signwise.runtime.session import Session
from signwise.schedule import BinarizationSchedule

# Seconds per batch size and number of threads; large networks take longer anyway.
SECONDS = {
    "lenet5": 3.0,
    "vgg_small": 12.0,
    "resnet18": 20.0,
    "wrn28_10": 30.0,
    "mobilenet_v2": 15.0,
    "unet": 20.0,
    "token_step": 8.0,
    "dense4096": 6.0,
}
NETWORKS = tuple(SECONDS)
DECODER = models.LlamaConfig(
    hidden_size=512, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=8
)
ONE_AT_A_TIME = ("token_step", "dense4096")
HIDE = Path(__file__).with_name("hide_avx512.c")
INPUT_SHAPES = {"lenet5": (1, 28, 28), "mobilenet_v2": (3, 96, 96), "unet": (3, 96, 96)}
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


class InvertedResidual(nn.Module):
    """The block of MobileNetV2: wider by a 1x1 layer, a depthwise layer, narrower by another 1x1 layer."""

    def __init__(self, inputs: int, outputs: int, stride: int, times: int) -> None:
        super().__init__()
        wide = times * inputs
        layers = [] if times == 1 else [_conv_norm(inputs, wide, 1), nn.ReLU6()]
        layers += [_conv_norm(wide, wide, 3, stride, groups=wide), nn.ReLU6(), _conv_norm(wide, outputs, 1)]
        self.layers = nn.Sequential(*layers)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.shortcut else y


def mobilenet_v2() -> nn.Module:
    """MobileNetV2 with 17 blocks, width 1 and 1000 classes."""
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    layers: list[nn.Module] = [_conv_norm(3, 32, 3, 2), nn.ReLU6()]
    channels = 32
    for times, outputs, count, stride in stages:
        for block in range(count):
            layers.append(InvertedResidual(channels, outputs, stride if block == 0 else 1, times))
            channels = outputs
    last = [_conv_norm(channels, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers, *last)


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class UNet(nn.Module):
    """Four levels of two 3x3 layers each, with 32 to 256 channels; transposed convolutions lead up again."""

    def __init__(self, width: int = 32, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(4)]
        above = list(pairwise(widths))
        self.down = nn.ModuleList(_two_layers(*pair) for pair in ((3, width), *above))
        self.up = nn.ModuleList(nn.ConvTranspose2d(lower, upper, 2, 2) for upper, lower in above)
        self.join = nn.ModuleList(_two_layers(2 * upper, upper) for upper, _ in above)
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = [self.down[0](x)]
        for down in self.down[1:]:
            kept.append(down(F.max_pool2d(kept[-1], 2)))
        made = kept.pop()
        for up, join in zip(reversed(self.up), reversed(self.join), strict=True):
            made = join(torch.cat((kept.pop(), up(made)), 1))
        scores: Tensor = self.last(made)
        return scores


def _two_layers(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(_conv_norm(inputs, outputs, 3), nn.ReLU(), _conv_norm(outputs, outputs, 3), nn.ReLU())


BUILDERS: dict[str, Callable[[], nn.Module]] = {**models.MODELS, "mobilenet_v2": mobilenet_v2, "unet": UNet}


def untrained(name: str) -> Untrained:
    """A network with random binary weights and batch-norm statistics to match; takes raw pixels."""
    torch.manual_seed(0)
    shape = INPUT_SHAPES.get(name, _CIFAR_SHAPE)
    bare = BUILDERS[name]()
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


def token_step(config: models.LlamaConfig) -> Untrained:
    """A decoder's pass over the last token of the longest text that it takes; the head and the embedding stay float."""
    torch.manual_seed(0)
    model = models.llama(config).eval()
    state_dict_bytes = _float_bytes(model)
    binarize_(model, skip=last, method=GroupTransform(scale="mean"))
    BinarizationSchedule(total_steps=1).apply_(model, 1)
    program = compile_decoder(model)
    draw, length = np.random.default_rng(0), config.max_position_embeddings
    tokens = draw.integers(0, config.vocab_size, (4, 1)).astype(np.int32)
    caches = (draw.standard_normal((4, *given.shape)).astype(np.float32) for given in program.inputs[2:])
    examples = (tokens, np.full((4, 1), length - 1, np.float32), *caches)
    network = Network(float32=program, int8=program.quantize(examples), examples=examples)
    step = TokenStep(model, config, length).eval()
    with torch.inference_mode():
        expected = step(*map(torch.from_numpy, examples))[0].numpy()
    difference = float(np.abs(program.run(examples)[0] - expected).max() / np.abs(expected).max())
    return Untrained(network=network, state_dict_bytes=state_dict_bytes, difference=difference)


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
        expected = model(*map(torch.from_numpy, listed(examples))).numpy()
    difference = float(np.abs(program.run(examples) - expected).max() / np.abs(expected).max())
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


def built_by_name(name: str) -> Untrained:
    """One of the networks to measure."""
    if name == "dense4096":
        return dense(4096)
    if name == "token_step":
        return token_step(DECODER)
    return untrained(name)


def kind_of(operation: ops.Operation) -> str:
    """What an operation is, in a few words.

    Example:
        >>> kind_of(ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=8, kernel=(1, 1)))
        '1x1, binary'
    """
    if isinstance(operation, ops.Conv):
        height, width = operation.kernel
        size = "depthwise" if operation.groups == operation.out_channels > 1 else f"{height}x{width}"
        return f"{size}, {'binary' if operation.bits == 1 else 'float'}"
    if isinstance(operation, ops.Dense):
        return f"dense, {'binary' if operation.bits == 1 else 'float'}"
    return type(operation).__name__.lower()


def layer_times(program: Program, seconds: float) -> list[dict[str, Any]]:
    """The best time of every operation for one example and one thread.

    An activation that a layer applies itself takes no time of its own.
    """
    lowered = Session(program, threads=1).native
    assert lowered is not None
    inputs = [np.ascontiguousarray(array) for array in listed(random_input(program, 1))]
    outputs = [np.empty_like(array) for array in listed(program.run(tuple(inputs)))]
    shortest = np.full((len(program.ops), 5), np.inf)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        once = np.zeros_like(shortest)
        lowered.profile(inputs, outputs, once)
        shortest = np.minimum(shortest, once)
    shapes = program.shapes[len(program.inputs) :]
    return [
        {"kind": kind_of(operation), "output": list(shape), "seconds": float(best_of[-1])}
        for operation, shape, best_of in zip(program.ops, shapes, shortest, strict=True)
    ]


def measure(name: str, engines: Sequence[str], threads: Sequence[int], share: float) -> dict[str, Any]:
    """Measure one network in this process."""
    built = built_by_name(name)
    chosen = [ENGINES[engine] for engine in engines if not ENGINES[engine].missing()]
    batches = (1,) if name in ONE_AT_A_TIME else (1, 16)
    plan = Plan(engines=chosen, batches=batches, threads=threads, seconds=share * SECONDS[name])
    comparison = compare(built.network, plan, lambda line: print(f"  {line}", file=sys.stderr, flush=True))
    print(f"{name}\n{table(comparison)}\n", flush=True)
    programs = {"float32": built.network.float32, "int8": built.network.int8}
    return as_data(comparison) | {
        "layers": {precision: layer_times(made, share) for precision, made in programs.items() if made is not None},
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
        return measured | {"date": now(), "revision": revision()}


def merged(known: dict[str, Any], measured: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The networks of a record in their usual order, where ``measured`` replaces what is ``known``."""
    origin = {key: known[key] for key in ("date", "revision") if key in known}
    kept = {name: origin | network for name, network in known.get("networks", {}).items()}
    together = kept | measured
    return {name: together[name] for name in NETWORKS if name in together}


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
    parser.add_argument("--share", type=float, default=1.0, help="of the usual time per network (1)")
    parser.add_argument("--only", choices=NETWORKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    engines = arguments.engines or [name for name in ENGINES if name != "numpy"]
    if arguments.only is not None:
        measured = measure(arguments.only, engines, arguments.threads, arguments.share)
        arguments.out.write_text(json.dumps(measured))
        return

    words = ["--engines", *engines, "--threads", *map(str, arguments.threads), "--share", str(arguments.share)]
    networks = {name: measure_apart(name, words, {}) for name in arguments.networks}
    out = arguments.out or record_path(Path("results"), processor())
    known = json.loads(out.read_text()) if out.exists() else {}
    all_networks = merged(known, networks)
    record: dict[str, Any] = {"networks": all_networks, "figures": figures(all_networks)}
    if "avx2" in known:
        record["avx2"] = known["avx2"]
    with tempfile.TemporaryDirectory() as folder:
        environment = None if arguments.no_avx2 else hide_avx512(Path(folder))
        if environment is not None and "resnet18" in networks:
            print("AVX-512, AVX-VNNI and AMX hidden from every engine:\n", flush=True)
            hidden = {"resnet18": measure_apart("resnet18", words, environment)}
            record["avx2"] = {"networks": hidden, "figures": figures(hidden)}
    write_record(out, record, "onnx", "onnxruntime", "openvino", "mnn")
    for part in (record, *([record["avx2"]] if "avx2" in record else [])):
        print("figures:" if part is record else "figures with AVX2 alone:")
        for what, value in part["figures"].items():
            print(f"  {what}: {value:.3g}")


if __name__ == "__main__":
    main()
