"""``signwise report``: one HTML page that compares runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from signwise.cli.paths import check_output
from signwise.cli.progress import say

_EXAMPLES = """examples:
  signwise report runs/lenet5-mnist                                    one run, to report.html
  signwise report runs/lenet5-mnist runs/lenet5-mnist-32bit -o lenet5.html
  signwise report runs/* --no-speed                                    at once, from the records alone
"""


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "report",
        help="compare runs on one HTML page",
        description="Write one page with the results, sizes, speed, curves and layer states of runs. The page holds "
        "its pictures, so that it can be sent and read anywhere, also on a phone. For the speed, each network is "
        "packed and timed on this machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", metavar="RUN", nargs="+", type=Path, help="a run's folder; it may still be training")
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page (report.html)"
    )
    parser.add_argument(
        "--no-speed",
        dest="speed",
        action="store_false",
        help="do not pack and time the networks, which takes some seconds per run",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the runs, write the page and print its path."""
    check_output(arguments.out)
    from signwise.atomic import atomic_write
    from signwise.report import measure, read_runs, report_page

    runs, measured = read_runs(arguments.folders), []
    for folder in arguments.folders if arguments.speed else []:
        say(f"packing and timing {folder}")
        measured.append(measure(folder))
    say("")
    page = report_page(runs, measured)
    with atomic_write(arguments.out) as file:
        file.write(page.encode())
    print(arguments.out)
    return 0
