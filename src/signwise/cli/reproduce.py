"""``signwise reproduce``: the paper's tables and figures, from existing records and from runs still to be trained."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signwise.errors import SignwiseError

if TYPE_CHECKING:
    from signwise.reproduce.runs import PlannedRun, Slot

_TARGETS = ("table1", "alpha", "comparison", "state-figure", "accuracy-figure", "ablation", "all")
_ALIASES = {"openings": "ablation"}
_EXAMPLES = """examples:
  signwise reproduce table1 --dry-run                show what would run, and for how long
  signwise reproduce all --budget cpu                LeNet5 in full, the others as far as a CPU goes
  signwise reproduce all --jobs 8 --seeds 3          everything, on eight GPUs, three seeds each
  signwise reproduce ablation                        ablate the choices that the paper does not specify
  signwise reproduce all --no-train                  record finished runs and render, train nothing
  signwise reproduce all --no-train --also runs/own  with a run of other settings than the experiments'

Tables (Markdown, CSV) and figures go to --out. A finished run leaves a record there, in records/; --records takes the
records of another folder. Nothing that is recorded is trained again.
"""


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "reproduce",
        help="reproduce the paper's tables and figures",
        description="Train the runs that a table or figure of the paper still needs, record them, and render it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = f"one of {', '.join(_TARGETS)}"
    parser.add_argument("what", choices=(*_TARGETS, *_ALIASES), metavar="WHAT", help=what)
    parser.add_argument("--budget", choices=("full", "cpu"), default="full", help="what the hardware allows (full)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="runs per experiment (1)")
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at once (default: one per accelerator)")
    parser.add_argument(
        "--out", type=Path, default=Path("reproduce-out"), metavar="FOLDER", help="tables and figures (reproduce-out)"
    )
    parser.add_argument("--records", type=Path, metavar="FOLDER", help="records (default: records/ in --out)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="run folders (runs)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder with the data sets (default: the cache)")
    parser.add_argument("--bfloat16", action="store_true", help="mixed precision, faster on CPUs that have it and GPUs")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and train nothing")
    parser.add_argument("--no-train", action="store_true", help="record finished runs, render, train nothing")
    parser.add_argument(
        "--also",
        type=Path,
        action="append",
        default=[],
        metavar="RUN",
        help="record this finished run too, whatever its settings (repeatable)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Plan, train, record and render; the exit code is 1 if a run failed."""
    for name in ("seeds", "jobs"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise SignwiseError(f"--{name} must be at least 1, got {value}")
    target = _ALIASES.get(arguments.what, arguments.what)
    records: Path = arguments.records or arguments.out / "records"
    if not arguments.dry_run:
        for folder in arguments.also:
            _record(folder, records)
    if target == "ablation":
        return _ablation(arguments, records)
    failed: list[PlannedRun] = []
    if target in ("comparison", "all"):
        _compare_methods(arguments, records)
    if not arguments.no_train:
        planned, places = _plan(arguments, target, records)
        if arguments.dry_run:
            return 0
        failed = _train(arguments, planned, places, records)
    elif arguments.dry_run:
        return 0
    _record_finished(arguments.runs, records)
    _render(target, records, arguments.out)
    if failed:
        print(f"{len(failed)} of the runs failed; the logs are in {arguments.runs}")
    return 1 if failed else 0


def _say(text: str) -> None:
    print(text, flush=True)


def _ablation(arguments: argparse.Namespace, records: Path) -> int:
    from signwise.reproduce import ablation

    path = records / ablation.FILE
    if arguments.dry_run:
        print(f"{path}: {'recorded' if path.exists() else 'to be measured, some minutes'}")
        return 0
    if not path.exists() and not arguments.no_train:
        ablation.measure_ablation(records, _say, data=arguments.data)
    _render_ablation(records, arguments.out)
    print(ablation.ablation_markdown(records))
    return 0


def _compare_methods(arguments: argparse.Namespace, records: Path) -> None:
    """Train what the short comparison of the methods still lacks, unless nothing is to be trained."""
    from signwise.reproduce.method_comparison import SEEDS, entries, measure_methods, missing, resnet_entries
    from signwise.reproduce.runs import slots
    from signwise.training import Options

    digits, objects = range(max(arguments.seeds, SEEDS)), range(arguments.seeds)
    place = slots(1, _accelerators())[0]
    options = Options(
        data=arguments.data, device=place.device, threads=place.threads, bfloat16=arguments.bfloat16, tensorboard=False
    )
    for network, seeds, wanted in (("LeNet5", digits, entries()), ("ResNet-20", objects, resnet_entries())):
        left = sum(len(missing(records, wanted, seed)) for seed in seeds)
        if left:
            total = len(seeds) * len(wanted)
            print(f"comparison of the methods on {network}: {left} of {total} short trainings are not recorded")
        if left and not arguments.no_train and not arguments.dry_run:
            measure_methods(records, _say, options=options, seeds=seeds, wanted=wanted, runs=arguments.runs)


def _accelerators() -> list[str]:
    import torch

    if torch.cuda.is_available():
        return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    return ["mps"] if torch.backends.mps.is_available() else []


def _plan(arguments: argparse.Namespace, target: str, records: Path) -> tuple[list[PlannedRun], list[Slot]]:
    from signwise.reproduce.experiments import experiments
    from signwise.reproduce.records import read_training_records
    from signwise.reproduce.runs import plan, remembered, seconds_per_image, slots

    places = slots(arguments.jobs, _accelerators())
    first = places[0]
    estimate = remembered(
        arguments.runs, str(first), lambda recipe: seconds_per_image(recipe, first.device, first.threads), _say
    )
    wanted = experiments(target, arguments.budget, arguments.seeds)
    planned = plan(wanted, read_training_records(records), arguments.runs, estimate)
    _show(planned, len(places))
    return planned, places


def _train(
    arguments: argparse.Namespace, planned: list[PlannedRun], places: list[Slot], records: Path
) -> list[PlannedRun]:
    from signwise.reproduce.runs import launch
    from signwise.training import Options

    waiting = [entry for entry in planned if entry.needs_training]
    # The relaxed weights are tested often enough for their curve; each test costs as much as the one that counts.
    options = Options(data=arguments.data, bfloat16=arguments.bfloat16, relaxed_every=10)
    return launch(waiting, places, options=options, finished=lambda done: _record(done.folder, records), say=_say)


def _record_finished(runs: Path, records: Path) -> None:
    """Record every finished run that belongs to an experiment of either budget, whoever started it."""
    from signwise.reproduce.experiments import BUDGETS, experiments
    from signwise.reproduce.records import read_training_records
    from signwise.reproduce.runs import finished_unrecorded

    wanted = [recipe for budget in BUDGETS for recipe in experiments("all", budget)]
    for finished in finished_unrecorded(wanted, read_training_records(records), runs):
        _record(finished.folder, records)


def _show(planned: list[PlannedRun], places: int) -> None:
    from signwise.text import duration

    width = max(len(entry.name) for entry in planned)
    left = 0.0
    for entry in planned:
        words = {
            "recorded": "recorded",
            "finished": "finished, to be recorded",
            "running": f"running in another process, epoch {entry.epochs_done} of {entry.recipe.epochs}",
            "interrupted": f"to be resumed after epoch {entry.epochs_done} of {entry.recipe.epochs}",
            "new": "to be trained",
        }[entry.status]
        time = ""
        if entry.needs_training and entry.seconds_left is not None:
            left += entry.seconds_left
            time = f", about {duration(entry.seconds_left)}"
        print(f"{entry.name.ljust(width)}  {words}{time}")
    if left:
        at_once = f", {places} at once" if places > 1 else ""
        print(f"total: about {duration(left / places)}{at_once}, from one measured step of each")


def _record(folder: Path, records: Path) -> None:
    from signwise.reproduce.records import record_run, write_record

    record = record_run(folder)
    path = write_record(record, records)
    _say(f"{record.name}: best error {record.result.best_error:.2f} %, recorded in {path}")


def _render(target: str, records: Path, out: Path) -> None:
    from signwise.reproduce.method_tables import render_methods
    from signwise.reproduce.records import read_training_records
    from signwise.reproduce.render import render

    files = render(target, read_training_records(records), out)
    if target in ("comparison", "all"):
        files += render_methods(records, out)
    if target == "all":
        files += _render_ablation(records, out)
    for path in files:
        print(f"rendered {path}")


def _render_ablation(records: Path, out: Path) -> list[Path]:
    from signwise.reproduce.ablation import FILE, ablation_markdown
    from signwise.reproduce.render import write_if_changed

    if not (records / FILE).exists():
        return []
    write_if_changed(out / "ablation.md", ablation_markdown(records) + "\n")
    return [out / "ablation.md"]
