"""``signwise bench``: time a packed file beside other engines."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signwise.cli.paths import check_output, load_program
from signwise.cli.progress import say
from signwise.errors import SignwiseError
from signwise.invocation import install

if TYPE_CHECKING:
    from signwise.bench.engines import Engine

_EXAMPLES = """examples:
  signwise bench net.sw                                all installed engines, float32 and int8
  signwise bench net.sw --batch 1 --threads 1          one column
  signwise bench net.sw --engines onnxruntime          only ONNX Runtime beside ours
  signwise bench small.sw large.sw                     packed files beside each other
  signwise bench net.sw --chart net.png --json net.json

Times are the best of many runs in which the engines take turns; 2.5x means 2.5 times as long as signwise. Memory is the
peak of a process that loads the file and runs it at batch 1, above a bare Python with numpy. The other engines get the
same network with float32 weights and batch norm folded; their int8 forms are quantized on random pixels.
"""


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "bench",
        help="time a packed file beside other engines",
        description="Measure time, memory and size of a packed file, and of the same network in other engines.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="a packed file or the name of a shipped program; several are compared with each other",
    )
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16], metavar="N", help="batch sizes (1 16)")
    parser.add_argument("--threads", type=int, nargs="+", metavar="N", help="numbers of threads (1 and all cores)")
    parser.add_argument("--engines", nargs="+", metavar="NAME", help="the other engines (all; with several files none)")
    parser.add_argument(
        "--activations", nargs="+", choices=("float32", "int8"), default=["float32", "int8"], help="precision (both)"
    )
    parser.add_argument("--seconds", type=float, default=4.0, metavar="S", help="seconds per column (4)")
    parser.add_argument("--chart", type=Path, metavar="PATH", help="draw a chart to a .png or .svg file")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all numbers, with versions and hardware")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    from signwise.bench.measure import Plan, compare
    from signwise.bench.network import from_program
    from signwise.bench.report import as_data, files_table, table
    from signwise.provenance import write_record
    from signwise.runtime import native

    threads = arguments.threads or sorted({1, native.default_threads()})
    for name, values in (("batch", arguments.batch), ("threads", threads), ("seconds", [arguments.seconds])):
        if not all(value > 0 for value in values):
            raise SignwiseError(f"--{name} must be positive, got {' '.join(map(str, values))}")
    if arguments.chart is not None:
        _check_chart(arguments.chart, arguments.files)
    if arguments.json is not None:
        check_output(arguments.json)
    networks = {file: from_program(load_program(file)) for file in arguments.files}
    engines = _engines(arguments.engines if len(networks) == 1 else arguments.engines or [])
    plan = Plan(
        engines=engines,
        precisions=arguments.activations,
        batches=arguments.batch,
        threads=threads,
        seconds=arguments.seconds,
    )
    comparisons = {}
    for file, network in networks.items():
        comparisons[file.name] = comparison = compare(network, plan, say)
        if len(networks) == 1 or arguments.engines:
            print(f"{file}: best time of many runs")
            print(table(comparison))
    if len(networks) > 1:
        print("best time of many runs")
        print(files_table(comparisons))
    if arguments.json is not None:
        results = [{"file": name} | as_data(comparison) for name, comparison in comparisons.items()]
        result = results[0] if len(results) == 1 else {"files": results}
        write_record(arguments.json, result, "onnx", "onnxruntime", "openvino", "mnn")
    if arguments.chart is not None:
        from signwise.figures import save
        from signwise.figures.bars import engine_times_figure

        save(engine_times_figure(comparison, arguments.files[0].name), arguments.chart)
    return 0


def _engines(names: list[str] | None) -> list[Engine]:
    """Ours and the requested engines, or all that are installed; says how to install what is missing."""
    from signwise.bench.isolated import ENGINES
    from signwise.text import unknown_name

    for name in names or []:
        if name not in ENGINES:
            raise SignwiseError(unknown_name("engine", name, ENGINES))
    wanted = [ENGINES[name] for name in ENGINES if name == "signwise" or names is None or name in names]
    installed = []
    for engine in wanted:
        if missing := engine.missing():
            needed = f"it needs {', '.join(missing)}: {install(*missing)}"
            print(f"{engine.title} is left out; {needed}", file=sys.stderr)
        else:
            installed.append(engine)
    # Numpy is too slow to wait for, unless there is nothing else to compare with.
    if names is None and any(not engine.ours for engine in installed):
        installed = [engine for engine in installed if engine.name != "numpy"]
    return installed


def _check_chart(path: Path, files: list[Path]) -> None:
    # Checked before minutes of measuring, not after them.
    if len(files) > 1:
        raise SignwiseError(f"--chart draws the engines of one file, got {len(files)} files")
    if importlib.util.find_spec("matplotlib") is None:
        raise SignwiseError(f"--chart needs matplotlib: {install('matplotlib')}")
    if path.suffix not in (".png", ".svg"):
        raise SignwiseError(f"--chart must end in .png or .svg, got {path.name!r}")
    check_output(path)
