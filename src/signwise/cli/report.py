"""``signwise report``: one HTML page that compares runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from signwise.cli.paths import check_output

_EXAMPLES = """examples:
  signwise report runs/lenet5-mnist                                    one run, to report.html
  signwise report runs/lenet5-mnist runs/lenet5-mnist-32bit -o lenet5.html
"""


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "report",
        help="compare runs on one HTML page",
        description="Write one page with the results, sizes, curves and layer states of runs. The page holds its "
        "pictures, so that it can be sent and read anywhere, also on a phone.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", metavar="RUN", nargs="+", type=Path, help="a run's folder; it may still be training")
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page (report.html)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the runs, write the page and print its path."""
    check_output(arguments.out)
    from signwise.atomic import atomic_write
    from signwise.report import read_runs, report_page

    page = report_page(read_runs(arguments.folders))
    with atomic_write(arguments.out) as file:
        file.write(page.encode())
    print(arguments.out)
    return 0
