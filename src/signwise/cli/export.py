"""``signwise export``: a packed file in the format of another engine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from signwise import shipped
from signwise.cli.paths import load_any_program, load_program
from signwise.errors import SignwiseError
from signwise.program import IntegerProgram, Program

_EXAMPLES = """examples:
  signwise export net.sw --to onnx                    net.onnx, one bit per weight, for ONNX Runtime, OpenVINO, ...
  signwise export net.sw --to onnx --float-weights    the same with float32 weights, thirty times as large
  signwise export lenet5-mnist-1bit --to onnx -o digits.onnx
  signwise export net.sw --to c -o net                C99 for microcontrollers, in the folder net
  signwise export net.sw --to wasm -o site            a folder for a web server: page, runtime and network
"""


class Target(NamedTuple):
    """A format: how its default name ends, what reads the file, and what writes it and returns the lines to print."""

    suffix: str
    load: Callable[[Path], Any]
    write: Callable[[Any, Path, argparse.Namespace], list[str]]


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "export",
        help="write a packed file for another engine",
        description="Write a packed file in the format of another engine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="a packed file, or the name of a shipped program")
    parser.add_argument("--to", type=_format, choices=tuple(TARGETS), required=True, help="the format")
    parser.add_argument("-o", "--out", type=Path, metavar="OUT", help="where it goes (default: named after FILE)")
    parser.add_argument("--name", default="net", metavar="NAME", help="c: of the files and their functions (net)")
    parser.add_argument(
        "--calibrate",
        type=int,
        default=128,
        metavar="N",
        help="c: training images to choose scales on, unless the file is in integers (128)",
    )
    parser.add_argument(
        "--validate",
        type=int,
        default=1000,
        metavar="N",
        help="c: test images to compare the errors on; 0: none (1000)",
    )
    parser.add_argument("--dataset", metavar="NAME", help="c: the data set of those images (default: the file's)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="c: where the data set is (default: the cache)")
    parser.add_argument("--float-weights", action="store_true", help="onnx: weights as float32 numbers, not as bits")
    parser.set_defaults(run=run)


def _format(name: str) -> str:
    if name == "gguf":
        raise argparse.ArgumentTypeError(
            "a packed file lists operations and no longer knows the layers, heads and tokenizer that GGUF asks for: "
            "write GGUF from the PyTorch model, with signwise.export.gguf(model, path)"
        )
    return name


def run(arguments: argparse.Namespace) -> int:
    """Read the file, write the other one, and print sizes and the next step."""
    path, target = shipped.resolve(arguments.file), TARGETS[arguments.to]
    if path.is_dir():
        raise SignwiseError(f"{path} is a folder: pack a run first with signwise compile {path}")
    out = arguments.out or Path(f"{path.stem}{target.suffix}")
    print(f"{arguments.file}: {path.stat().st_size:,} bytes")
    for line in target.write(target.load(path), out, arguments):
        print(line)
    return 0


def _onnx(program: Program, out: Path, arguments: argparse.Namespace) -> list[str]:
    from signwise import export

    export.onnx(program, out, packed=not arguments.float_weights)
    return [
        f"{out}: {out.stat().st_size:,} bytes",
        f"next: onnxruntime.InferenceSession({str(out)!r}).run(None, {{'input': examples}})",
    ]


def _c(program: Program | IntegerProgram, out: Path, arguments: argparse.Namespace) -> list[str]:
    from signwise import export

    errors: list[str] = []
    if isinstance(program, Program):
        program, errors = _to_integers(program, arguments)
    source = export.c(program, out, name=arguments.name)
    return [
        f"{out}: {', '.join(source.files)}",
        f"flash: {source.weight_bytes:,} bytes of weights, and 2,000 to 4,000 of code",
        f"memory: {source.arena_bytes:,} bytes, {arguments.name.upper()}_ARENA_BYTES",
        *errors,
        f"next: compile {arguments.name}.c and signwise_kernels.c, and call {arguments.name}_run",
    ]


def _to_integers(program: Program, arguments: argparse.Namespace) -> tuple[IntegerProgram, list[str]]:
    """The program in integers, with scales from its data set, and a line with both errors if it is asked for."""
    from signwise import datasets
    from signwise.program.measures import error_text

    if arguments.calibrate < 1 or arguments.validate < 0:
        raise SignwiseError("--calibrate must be at least 1 and --validate at least 0")
    name = arguments.dataset or program.about.get("dataset")
    if name is None:
        raise SignwiseError(f"{arguments.file} does not name its data set, whose images set the scales: give --dataset")
    data = datasets.load(name, arguments.data)
    integers = program.to_integers(data.examples(arguments.calibrate))
    if not arguments.validate:
        return integers, []
    images, labels = data.test_images[: arguments.validate], data.test_labels[: arguments.validate]
    total = len(data.test_images)
    errors = [error_text(each.error(images, labels), len(images), total) for each in (program, integers)]
    return integers, [f"test error: {errors[0]} for the file, {errors[1]} in integers"]


def _wasm(program: Program, out: Path, arguments: argparse.Namespace) -> list[str]:
    from signwise import export

    files = export.wasm({shipped.resolve(arguments.file).stem: program}, out)
    total = sum(path.stat().st_size for path in files)
    return [
        f"{out}: {len(files)} files, {total:,} bytes",
        f"next: python -m http.server --directory {out}, then open localhost:8000",
    ]


TARGETS = {
    "onnx": Target(".onnx", load_program, _onnx),
    "c": Target("", load_any_program, _c),
    "wasm": Target("-web", load_program, _wasm),
}
