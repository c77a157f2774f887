"""``signwise export``: a packed file in the format of another engine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from signwise import shipped
from signwise.errors import SignwiseError
from signwise.program.program import Program

_EXAMPLES = """examples:
  signwise export net.sw --to onnx                    net.onnx, one bit per weight, for ONNX Runtime, OpenVINO, ...
  signwise export net.sw --to onnx --float-weights    the same with float32 weights, thirty times as large
  signwise export lenet5-mnist-1bit --to onnx -o digits.onnx
"""


class Target(NamedTuple):
    """A format: how its default name ends, and what writes it and returns the lines to print."""

    suffix: str
    write: Callable[[Program, Path, argparse.Namespace], list[str]]


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
    parser.add_argument("--to", choices=tuple(TARGETS), required=True, help="the format")
    parser.add_argument("-o", "--out", type=Path, metavar="OUT", help="where it goes (default: named after FILE)")
    parser.add_argument("--float-weights", action="store_true", help="onnx: weights as float32 numbers, not as bits")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the file, write the other one, and print sizes and the next step."""
    path, target = shipped.resolve(arguments.file), TARGETS[arguments.to]
    if path.is_dir():
        raise SignwiseError(f"{path} is a folder: pack a run first with signwise compile {path}")
    out = arguments.out or Path(f"{path.stem}{target.suffix}")
    print(f"{arguments.file}: {path.stat().st_size:,} bytes")
    for line in target.write(Program.load(path), out, arguments):
        print(line)
    return 0


def _onnx(program: Program, out: Path, arguments: argparse.Namespace) -> list[str]:
    from signwise import export

    export.onnx(program, out, packed=not arguments.float_weights)
    return [
        f"{out}: {out.stat().st_size:,} bytes",
        f"next: onnxruntime.InferenceSession({str(out)!r}).run(None, {{'input': examples}})",
    ]


TARGETS = {"onnx": Target(".onnx", _onnx)}
