"""How close the kernels come to the limit of the machine: the binary layers of ResNet-18, one image, one thread.

    python benchmarks/kernels.py               # about a minute; writes results/kernels.json

A look-up of five weights is one vector load, and a core loads two vectors per cycle: that is the limit. For 8 bits on
CPUs with VNNI it is two instructions per cycle, each adding up 64 products of bytes; 16 products replace 36, or 25 with
a stride of 2 (csrc/bytes/winograd.h). AMD's Zen 4 has 32-byte units and handles one 64-byte vector per cycle.

Each layer is timed on its own, best of many; the shares of its phases come from separate runs with a stop-watch, which
slows them a little. The clock is measured before and after each layer, because it depends on the load of the machine:
a C compiler builds clock.c for that.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from signwise.program import operations as ops
from signwise.program.program import Program
from signwise.provenance import write_record
from signwise.runtime import native
from signwise.runtime.session import Session

VECTOR_BYTES = {"avx512vnni": 64, "avx512": 64, "avx2": 32, "neon": 16, "portable": 16}
WEIGHTS_PER_LOOKUP = 5
PHASES = ("prepare", "build", "sums", "finish")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A 3x3 convolution with padding 1; the network has ``count`` of them."""

    channels: int
    filters: int
    size: int
    stride: int
    count: int

    @property
    def additions(self) -> int:
        """Multiply-adds of the same layer in float32."""
        return self.filters * self.channels * 9 * (self.size // self.stride) ** 2


LAYERS = (
    Layer(channels=64, filters=64, size=32, stride=1, count=4),
    Layer(channels=64, filters=128, size=32, stride=2, count=1),
    Layer(channels=128, filters=128, size=16, stride=1, count=3),
    Layer(channels=128, filters=256, size=16, stride=2, count=1),
    Layer(channels=256, filters=256, size=8, stride=1, count=3),
    Layer(channels=256, filters=512, size=8, stride=2, count=1),
    Layer(channels=512, filters=512, size=4, stride=1, count=3),
)


def program(layer: Layer, *, eight_bits: bool) -> Program:
    """The layer in the middle of a program: its input is rectified, as in a network, and its output is consumed."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 256, (layer.filters, layer.channels * 9 // 8)).astype(np.uint8)
    kept = ops.Quantized(type="uint6", scale=2.0**-4) if eight_bits else None
    coarse = ops.Quantized(type="uint6", scale=1.0) if eight_bits else None
    first = ops.Conv(
        inputs=(0,), weight="first", bits=32, out_channels=layer.channels, kernel=(1, 1), relu=True, out=kept
    )
    convolution = ops.Conv(
        inputs=(1,), weight="bits", bits=1, out_channels=layer.filters, kernel=(3, 3), padding=(1, 1, 1, 1),
        stride=(layer.stride, layer.stride), relu=True, out=coarse,
    )  # fmt: skip
    return Program(
        input_shape=(3, layer.size, layer.size),
        ops=(first, convolution, ops.GlobalPool(inputs=(2,))),
        tensors={"first": rng.standard_normal((layer.channels, 3, 1, 1)).astype(np.float32), "bits": bits},
        output=3,
    )


def best(run: Callable[[], object], seconds: float) -> float:
    """The shortest time of a call, of all that fit into ``seconds``."""
    shortest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest


@cache
def spin() -> Callable[[int], None]:
    """A function that takes as many cycles as its argument says."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "clock.so"
        source = Path(__file__).with_name("clock.c")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", built, source], check=True)
        function = ctypes.CDLL(str(built)).spin
    function.argtypes, function.restype = [ctypes.c_int64], None
    return function


def clock() -> float:
    """Cycles per second of this core, now."""
    run, cycles = spin(), 200_000
    return cycles / best(lambda: run(cycles), 0.2)


def vectors_per_cycle(isa: str) -> int:
    """Loads, or sums of products, that a core can start per cycle."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    zen4 = {"vendor_id\t: AuthenticAMD", "cpu family\t: 25"} <= set(lines)
    return 1 if zen4 and VECTOR_BYTES[isa] == 64 else 2


def measure(layer: Layer, isa: str, *, eight_bits: bool, seconds: float) -> dict[str, Any]:
    """One row of the record."""
    model = Session(program(layer, eight_bits=eight_bits), threads=1)
    lowered = model.native
    assert lowered is not None
    images = np.random.default_rng(1).standard_normal((1, *model.program.input_shape)).astype(np.float32)
    outputs = np.empty((1, *model.program.output_shape), np.float32)

    hertz = clock()
    profile = np.full((3, 5), np.inf)  # (operations, phases and the total)
    end = time.perf_counter() + seconds / 2
    while time.perf_counter() < end:
        once = np.zeros((3, 5))
        lowered.profile([images], [outputs], once)
        profile = np.where(once[:, 4:] < profile[:, 4:], once, profile)
    whole = best(lambda: lowered.run([images], [outputs]), seconds / 2)
    shortest = min(whole - profile[0, 4] - profile[2, 4], profile[1, 4])
    hertz = max(hertz, clock())
    if eight_bits and isa == "avx512vnni":
        additions_per_instruction = VECTOR_BYTES[isa] * 36 / (16 if layer.stride == 1 else 25)
    else:
        additions_per_instruction = WEIGHTS_PER_LOOKUP * VECTOR_BYTES[isa] / (2 if eight_bits else 4)
    vectors = vectors_per_cycle(isa)
    limit = vectors * additions_per_instruction * hertz
    phases = profile[1, :4]
    return {
        "isa": isa,
        "activations": "int8" if eight_bits else "float32",
        "channels": layer.channels,
        "filters": layer.filters,
        "size": layer.size,
        "stride": layer.stride,
        "count": layer.count,
        "additions": layer.additions,
        "seconds": shortest,
        "giga_additions_a_second": layer.additions / shortest / 1e9,
        "shares": {name: float(part) for name, part in zip(PHASES, phases / phases.sum(), strict=True)},
        "clock_gigahertz": hertz / 1e9,
        "vectors_a_cycle": vectors,
        "share_of_limit": layer.additions / shortest / limit,
    }


def show(row: dict[str, Any]) -> None:
    shares = "  ".join(f"{name} {share:4.0%}" for name, share in row["shares"].items())
    layer = f"{row['channels']:3} -> {row['filters']:3}  {row['size']:2}x{row['size']:<2} stride {row['stride']}"
    speed = f"{row['seconds'] * 1e6:6.0f} us  {row['giga_additions_a_second']:4.0f} G/s"
    print(
        f"{row['isa']:10} {row['activations']:7} {layer}  {speed}  {row['share_of_limit']:4.0%} of the limit  {shares}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/kernels.json"))
    parser.add_argument("--seconds", type=float, default=1.0, help="per layer")
    arguments = parser.parse_args()
    rows = []
    for isa in native.available_isas():
        os.environ["SIGNWISE_ISA"] = isa
        for eight_bits in (False, True):
            for layer in LAYERS:
                rows.append(measure(layer, isa, eight_bits=eight_bits, seconds=arguments.seconds))
                show(rows[-1])
    write_record(arguments.out, {"network": "resnet18", "batch": 1, "threads": 1, "layers": rows})


if __name__ == "__main__":
    main()
