"""``signwise inspect``: the contents of a packed file, operation by operation, without PyTorch."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from signwise import shipped
from signwise.cli.paths import load_any_program
from signwise.program import IntegerProgram, Program
from signwise.program.measures import Row, times_smaller
from signwise.text import aligned

_EXAMPLES = """examples:
  signwise inspect resnet18.sw             a table of its operations, and the totals
  signwise inspect resnet18.sw --json      the same for programs
"""


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "inspect",
        help="show the contents of a packed file",
        description="Show the operations of a packed file, their bits and bytes, and the layers that stayed float.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="a packed file, or the name of a shipped program")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the file and print."""
    program = load_any_program(arguments.file)
    size = shipped.resolve(arguments.file).stat().st_size
    print(json.dumps(_document(program, size), indent=2) if arguments.json else describe(program, size))
    return 0


def describe(program: Program | IntegerProgram, size: int) -> str:
    """The table, the totals and what the file says about itself.

    Args:
        program: as loaded, of either kind.
        size: bytes of the file.
    """
    rows = program.rows()
    binary = [row for row in rows if row.bits == 1]
    other = [row for row in rows if row.bits not in (None, 1)]
    kind = "8-bit" if isinstance(program, IntegerProgram) else "float"
    lines = [
        _table(rows),
        "",
        *(f"input   {_shape(given.shape)}{' of whole numbers' * (given.type == 'int32')}" for given in program.inputs),
        f"binary  {_count(binary)}, {sum(row.weights for row in binary):,} weights of one bit",
        f"{kind:6}  {_count(other)}, {sum(row.weights for row in other):,} weights{_named(other)}",
        f"bytes   {size:,}: tensors {program.nbytes:,}, header {size - program.nbytes:,}",
    ]
    if weights := sum(row.weights for row in rows):
        lines.append(f"        {8 * size / weights:.2f} bits per weight, {times_smaller(program.float32_bytes, size)}")
    if program.about:
        lines += ["", _about(program)]
    return "\n".join(lines)


def _table(rows: list[Row]) -> str:
    cells = [("value", "op", "layer", "result", "type", "bits", "weights", "bytes")]
    cells += [
        (
            str(row.value),
            row.op,
            row.layer,
            _shape(row.shape),
            row.type,
            str(row.bits or ""),
            f"{row.weights:,}" if row.weights else "",
            f"{row.bytes:,}" if row.bytes else "",
        )
        for row in rows
    ]
    return aligned(cells, left=(1, 2, 3, 4))


def _about(program: Program | IntegerProgram) -> str:
    rows = []
    for keyword, text in program.about.items():
        first, *rest = text.split("\n")
        rows += [(keyword, first), *(("", line) for line in rest)]
    return aligned(rows, left=(0, 1))


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _shapes(shapes: list[tuple[int, ...]]) -> list[Any]:
    """The shape as a list, or a list of several."""
    return list(shapes[0]) if len(shapes) == 1 else [list(shape) for shape in shapes]


def _count(layers: list[Row]) -> str:
    return "1 layer" if len(layers) == 1 else f"{len(layers)} layers"


def _named(layers: list[Row]) -> str:
    names = [row.layer for row in layers]
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return f" ({shown})" if shown else ""


def _document(program: Program | IntegerProgram, size: int) -> dict[str, Any]:
    return {
        "input_shape": _shapes([given.shape for given in program.inputs]),
        "output_shape": _shapes([program.shapes[value] for value in program.outputs]),
        "operations": [asdict(row) for row in program.rows()],
        "file_bytes": size,
        "tensor_bytes": program.nbytes,
        "about": dict(program.about),
    }
