"""``signwise reproduce``: the paper's tables and figures, from recorded runs and those that are still missing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signwise.errors import SignwiseError

if TYPE_CHECKING:
    from signwise.reproduce.launch import Slot
    from signwise.reproduce.plan import PlannedRun
    from signwise.reproduce.record import Record

_TARGETS = ("table1", "alpha", "comparison", "state-figure", "accuracy-figure", "openings", "all")
_DOCUMENT = Path("docs/results.md")
_EXAMPLES = """examples:
  signwise reproduce table1 --dry-run                what would be run, and for how long
  signwise reproduce all --budget cpu                LeNet5 in full, the others as far as a CPU goes
  signwise reproduce all --jobs 8 --seeds 3          everything, on eight GPUs, three seeds each
  signwise reproduce openings                        how much matters what the paper leaves open
  signwise reproduce all --no-train                  record what has finished and render, train nothing
"""


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "reproduce",
        help="reproduce the paper's tables and figures",
        description="Train what a table or figure of the paper needs and is not recorded yet, and render it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=_TARGETS, metavar="WHAT", help=f"one of {', '.join(_TARGETS)}")
    parser.add_argument("--budget", choices=("full", "cpu"), default="full", help="what hardware allows (full)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="runs of each experiment (1)")
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at once (default: one for each accelerator)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="run folders (runs)")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="records (results)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where the data sets are (default: the cache)")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and train nothing")
    parser.add_argument("--no-train", action="store_true", help="record what has finished, render, train nothing")
    parser.add_argument(
        "--ship", type=Path, metavar="FOLDER", help="also pack the best 1-bit LeNet5 for the package into this folder"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Plan, train, record and render; the exit code is 1 if a run failed."""
    for name in ("seeds", "jobs"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise SignwiseError(f"--{name} must be at least 1, got {value}")
    if arguments.what == "openings":
        return _measure_openings(arguments)
    from signwise.reproduce.record import read_all

    if arguments.no_train:
        failed = []
    else:
        planned, places = _plan(arguments)
        if arguments.dry_run:
            return 0
        failed = _train(arguments, planned, places)
    _record_finished(arguments)
    _render(arguments, read_all(arguments.results))
    if arguments.ship is not None:
        _ship(arguments, read_all(arguments.results))
    if failed:
        print(f"{len(failed)} of the runs failed; the logs are in {arguments.runs}")
    return 1 if failed else 0


def _say(text: str) -> None:
    print(text, flush=True)


def _measure_openings(arguments: argparse.Namespace) -> int:
    from signwise.reproduce.openings import FILE, markdown

    path: Path = arguments.results / FILE
    if arguments.dry_run:
        print(f"{path}: {'recorded' if path.exists() else 'to be measured, some minutes'}")
        return 0
    if not path.exists() and not arguments.no_train:
        from signwise.reproduce.measure_openings import measure_openings

        measure_openings(arguments.results, _say, data=arguments.data)
    print(markdown(arguments.results))
    return 0


def _accelerators() -> list[str]:
    import torch

    if torch.cuda.is_available():
        return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    return ["mps"] if torch.backends.mps.is_available() else []


def _plan(arguments: argparse.Namespace) -> tuple[list[PlannedRun], list[Slot]]:
    from signwise.reproduce.experiments import experiments
    from signwise.reproduce.launch import slots
    from signwise.reproduce.measure import seconds_per_image
    from signwise.reproduce.plan import plan
    from signwise.reproduce.record import read_all
    from signwise.reproduce.step_times import remembered

    places = slots(arguments.jobs, _accelerators())
    device, threads = places[0].device, places[0].threads
    estimate = remembered(arguments.runs, places[0], lambda recipe: seconds_per_image(recipe, device, threads), _say)
    wanted = experiments(arguments.what, arguments.budget, arguments.seeds)
    planned = plan(wanted, read_all(arguments.results), arguments.runs, estimate)
    _show(planned, len(places))
    return planned, places


def _train(arguments: argparse.Namespace, planned: list[PlannedRun], places: list[Slot]) -> list[PlannedRun]:
    from signwise.reproduce.launch import launch

    extra = [] if arguments.data is None else ["--data", str(arguments.data)]
    waiting = [entry for entry in planned if entry.needs_training]
    return launch(waiting, places, extra=extra, finished=lambda done: _record(done, arguments.results), say=_say)


def _record_finished(arguments: argparse.Namespace) -> None:
    """Record every finished run of an experiment of either budget, whoever started it."""
    from signwise.reproduce.experiments import BUDGETS, experiments
    from signwise.reproduce.plan import finished_unrecorded
    from signwise.reproduce.record import read_all

    worth_it = [recipe for budget in BUDGETS for recipe in experiments("all", budget)]
    for finished in finished_unrecorded(worth_it, read_all(arguments.results), arguments.runs):
        _record(finished, arguments.results)


def _show(planned: list[PlannedRun], places: int) -> None:
    from signwise.text import duration

    width = max(len(entry.name) for entry in planned)
    left = 0.0
    for entry in planned:
        words = {
            "recorded": "recorded",
            "finished": "finished, to be recorded",
            "running": f"running in another process, epoch {entry.epochs_done} of {entry.recipe.epochs}",
            "cut": f"to be resumed after epoch {entry.epochs_done} of {entry.recipe.epochs}",
            "new": "to be trained",
        }[entry.status]
        time = ""
        if entry.needs_training and entry.seconds_left is not None:
            left += entry.seconds_left
            time = f", about {duration(entry.seconds_left)}"
        print(f"{entry.name.ljust(width)}  {words}{time}")
    if left:
        at_once = f", {places} at once" if places > 1 else ""
        print(f"in all about {duration(left / places)}{at_once}, by a measured step of each")


def _record(finished: PlannedRun, results: Path) -> None:
    from signwise.reproduce.from_run import record_run
    from signwise.reproduce.record import write_record

    record = record_run(finished.folder)
    path = write_record(record, results)
    _say(f"{record.name}: best error {record.result.best_error:.2f} %, recorded in {path}")


def _render(arguments: argparse.Namespace, records: list[Record]) -> None:
    from signwise.reproduce.markers import fill_file
    from signwise.reproduce.render import blocks, render

    for path in render(arguments.what, records, arguments.results):
        print(f"rendered {path}")
    # The repository's own document stands beside its results; whoever reproduces elsewhere has the parts above.
    if _DOCUMENT.exists() and arguments.results.resolve() == Path("results").resolve():
        render("all", records, arguments.results)
        changed = fill_file(_DOCUMENT, blocks(records, arguments.results))
        print(f"{_DOCUMENT} {'rendered' if changed else 'is up to date'}")


def _ship(arguments: argparse.Namespace, records: list[Record]) -> None:
    from signwise.reproduce.plan import plan
    from signwise.reproduce.ship import ship, worth_shipping

    record = worth_shipping(records)
    if record is None:
        raise SignwiseError("there is no full record of the 1-bit LeNet5 to ship yet: run signwise reproduce table1")
    folder = plan([record.recipe], [], arguments.runs)[0].folder
    path = ship(folder, record, arguments.ship, arguments.data)
    print(f"shipped {path}: {path.stat().st_size:,} bytes, error {record.result.best_error:.2f} %")
