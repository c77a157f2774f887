"""Count what exported networks take: bytes of ONNX files, and flash, memory and instructions on microcontrollers.

python -m benchmarks.exports           # needs the tools that tools/cortex_m names; some minutes

Nothing here is timed: every number but the date is the same on every machine with the same compilers. Enters all of it
into results/exports.json.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import signwise as sw
from signwise.export import to_c, to_onnx
from signwise.program import IntegerProgram, Program
from signwise.program.operations import Weighted
from signwise.provenance import write_record
from tools import cortex_m

ROOT = Path(__file__).parents[1]
NETWORKS = ("lenet5-mnist-1bit", "tiny_cnn-mnist-1bit", "resnet8-cifar10-1bit", "resnet20_fast-cifar10-1bit")
EXAMPLES = 128
IMAGES = 2  # per core: the instructions hardly depend on the image


def onnx_sizes(name: str, program: Program) -> dict[str, Any]:
    """The bytes of a program's file and of its ONNX models."""
    return {
        "network": name,
        "program": len(program.encode()),
        "packed": len(to_onnx(program)),
        "float": len(to_onnx(program, packed=False)),
    }


def untrained_resnet18() -> Program:
    torch.manual_seed(0)
    model = sw.models.resnet18()
    sw.binarize_(model)
    return sw.compile(model, torch.zeros(1, 3, 32, 32))


def trained(name: str) -> dict[str, Any]:
    """A shipped network in C on every core, and its errors on all test images."""
    program = Program.load(name)
    data = sw.datasets.load(program.about["dataset"])
    integers = through_file(program.to_integers(data.examples(EXAMPLES)))
    return microcontroller(name, program, integers, data.test_images[:IMAGES]) | {
        "images": len(data.test_images),
        "error": 100 * program.error(data.test_images, data.test_labels),
        "integer_error": 100 * integers.error(data.test_images, data.test_labels),
    }


def through_file(program: IntegerProgram) -> IntegerProgram:
    """The program as a file gives it back: what is measured is what can be shipped."""
    with tempfile.TemporaryDirectory() as folder:
        program.save(Path(folder) / "net.sw")
        return IntegerProgram.load(Path(folder) / "net.sw")


def microcontroller(name: str, program: Program, integers: IntegerProgram, images: npt.NDArray[Any]) -> dict[str, Any]:
    """A network in C on every core, compiled for speed, and on one core for size."""
    source = to_c(integers)
    inputs = (integers.as_bytes(images).astype(np.int16) - 128).astype(np.int8)
    cores = []
    for core, optimize in [*((core, "-O2") for core in cortex_m.BOARDS), ("cortex-m4", "-Os")]:
        with tempfile.TemporaryDirectory() as folder:
            found = cortex_m.measure(source, inputs, core, Path(folder), optimize)
        if not np.array_equal(found.scores, integers.run(images)):
            raise RuntimeError(f"{name} on {core} does not give the integers of Python")
        cores.append(
            {
                "core": core,
                "optimize": optimize,
                "instructions": max(found.instructions),
                "flash": found.flash_bytes,
                "code": found.code_bytes,
                "stack": found.stack_bytes,
            }
        )
    work = sum(
        operation.work([program.shapes[value] for value in operation.inputs], program.shapes[number])
        for number, operation in enumerate(program.ops, start=1)
        if isinstance(operation, Weighted)
    )
    return {
        "network": name,
        "file": len(integers.encode()),
        "weights": source.weight_bytes,
        "arena": source.arena_bytes,
        "multiply_adds": work,
        "cores": cores,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "exports.json", help="the record")
    out: Path = parser.parse_args().out
    if missing := cortex_m.missing_tools():
        parser.error(f"not installed: {', '.join(missing)}")
    sizes = [onnx_sizes(name, Program.load(name)) for name in NETWORKS]
    sizes.append(onnx_sizes("resnet18, untrained", untrained_resnet18()))
    record = {"onnx": sizes, "microcontrollers": [trained(name) for name in NETWORKS]}
    write_record(out, record, "onnx")
    print(f"{out} written")


if __name__ == "__main__":
    main()
