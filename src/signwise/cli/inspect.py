"""``signwise inspect``: what is in a packed file, operation by operation, without PyTorch."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from signwise.program import operations as ops
from signwise.program.program import Program

_EXAMPLES = """examples:
  signwise inspect resnet18.sw             a table of its operations, and the totals
  signwise inspect resnet18.sw --json      the same for programs
"""


@dataclass(frozen=True)
class Row:
    """One operation; ``bits`` are those of a weight, ``bytes`` those of all tensors that it is the first to use."""

    value: int
    op: str
    layer: str
    shape: tuple[int, ...]
    kept_as: str
    bits: int | None
    weights: int
    bytes: int


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "inspect",
        help="show what is in a packed file",
        description="Show the operations of a packed file, the bits and bytes of each, and what stayed float.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="a packed file, or a shipped network by its name")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the file and print."""
    from signwise import shipped
    from signwise.program.file import load

    path = shipped.resolve(arguments.file)
    program = load(path)
    size = path.stat().st_size
    if arguments.json:
        print(json.dumps(_document(program, size), indent=2))
    else:
        print(describe(program, size))
    return 0


def rows(program: Program) -> list[Row]:
    """The operations of a program, one row each."""
    seen: set[str] = set()
    found = []
    for index, operation in enumerate(program.ops):
        names = [getattr(operation, attribute, None) for attribute in ("weight", "scale", "bias")]
        own = [name for name in names if name is not None and name not in seen]
        seen.update(own)
        weights, bits = 0, None
        if isinstance(operation, ops.Conv | ops.Dense):
            bits, weights = operation.bits, _weights(program, operation)
        found.append(
            Row(
                value=index + 1,
                op=operation.kind,
                layer=next((name.rpartition(".")[0] for name in names if name is not None), ""),
                shape=program.shapes[index + 1],
                kept_as="float32" if operation.out is None else operation.out.type,
                bits=bits,
                weights=weights,
                bytes=sum(program.tensors[name].nbytes for name in own),
            )
        )
    return found


def _weights(program: Program, operation: ops.Conv | ops.Dense) -> int:
    channels = program.shapes[operation.inputs[0]][0]
    if isinstance(operation, ops.Conv):
        return operation.out_channels * (channels // operation.groups) * math.prod(operation.kernel)
    return operation.out_features * operation.in_features


def describe(program: Program, size: int) -> str:
    """The table, the totals and what the file says about itself.

    Args:
        program: what was read.
        size: of its file, in bytes.
    """
    table = rows(program)
    lines = _table(table)
    binary = [row for row in table if row.bits == 1]
    real = [row for row in table if row.bits == 32]
    lines += [
        "",
        f"input   {_shape(program.input_shape)}",
        f"binary  {_count(binary)}, {sum(row.weights for row in binary):,} weights of one bit",
        f"float   {_count(real)}, {sum(row.weights for row in real):,} weights{_named(real)}",
        f"bytes   {size:,}: tensors {program.nbytes:,}, header {size - program.nbytes:,}",
    ]
    weights = sum(row.weights for row in table)
    if weights:
        lines.append(
            f"        {8 * size / weights:.2f} bits a weight, {4 * weights / size:.1f} times below float32 weights"
        )
    if program.about:
        width = max(len(keyword) for keyword in program.about)
        lines.append("")
        for keyword, text in program.about.items():
            first, *rest = text.split("\n")
            lines.append(f"{keyword:{width}}  {first}")
            lines += [f"{'':{width}}  {line}" for line in rest]
    return "\n".join(lines)


def _table(table: list[Row]) -> list[str]:
    cells = [("value", "op", "layer", "result", "kept as", "bits", "weights", "bytes")]
    cells += [
        (
            str(row.value),
            row.op,
            row.layer,
            _shape(row.shape),
            row.kept_as,
            str(row.bits or ""),
            f"{row.weights:,}" if row.weights else "",
            f"{row.bytes:,}" if row.bytes else "",
        )
        for row in table
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    words = (1, 2, 3, 4)  # the columns that are not numbers
    return [
        "  ".join(
            text.ljust(width) if column in words else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _count(layers: list[Row]) -> str:
    return "1 layer" if len(layers) == 1 else f"{len(layers)} layers"


def _named(layers: list[Row]) -> str:
    names = [row.layer for row in layers]
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return f" ({shown})" if shown else ""


def _document(program: Program, size: int) -> dict[str, Any]:
    return {
        "input_shape": list(program.input_shape),
        "output_shape": list(program.output_shape),
        "operations": [asdict(row) for row in rows(program)],
        "file_bytes": size,
        "tensor_bytes": program.nbytes,
        "about": dict(program.about),
    }
