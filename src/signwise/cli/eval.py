"""``signwise eval``: the error of a run or of a packed file on the test images."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError

_EXAMPLES = """examples:
  signwise eval runs/lenet5-mnist                  the best weights of a run
  signwise eval runs/lenet5-mnist --which last     the weights after its last step
  signwise eval lenet5.sw --threads 1              a packed file, without PyTorch
  signwise eval lenet5-mnist-1bit                  the program that comes with the package
"""


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "eval",
        help="test a run or a packed file",
        description="Measure the error of a trained model on the test images of its data set.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target", metavar="RUN_OR_FILE", help="a run's folder, a packed file, or the name of a shipped program"
    )
    parser.add_argument("--which", choices=("best", "last"), default="best", help="for a run: which weights (best)")
    parser.add_argument("--dataset", metavar="NAME", help="for a file: the data set (default: the one it names)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where the data set is (default: the cache)")
    parser.add_argument("--samples", type=int, metavar="N", help="test on the first N images only")
    parser.add_argument("--device", default="auto", help="for a run: cpu, cuda, ... (default: an accelerator if any)")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and print."""
    for name in ("samples", "threads"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise SignwiseError(f"--{name} must be at least 1, got {value}")
    is_run = Path(arguments.target).is_dir()
    report = _run_report(arguments) if is_run else _file_report(arguments)
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        relaxed = report.get("relaxed_error")
        beside = "" if relaxed is None else f" (relaxed {relaxed:.2f} %)"
        print(f"{report['what']}: error {report['error']:.2f} %{beside} on {report['images']:,} test images")
    return 0


def _run_report(arguments: argparse.Namespace) -> dict[str, Any]:
    import torch

    from signwise.training.distributed import pick_device
    from signwise.training.run_folder import evaluate_run

    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    device = pick_device(arguments.device)
    return evaluate_run(
        Path(arguments.target), arguments.which, device=device, data=arguments.data, samples=arguments.samples
    )


def _file_report(arguments: argparse.Namespace) -> dict[str, Any]:
    from signwise import datasets
    from signwise.cli.paths import load_any_program
    from signwise.program.measures import error_rate

    program = load_any_program(arguments.target)
    name = arguments.dataset or program.about.get("dataset")
    if name is None:
        raise SignwiseError(f"{arguments.target} does not name its data set: give it with --dataset")
    if name == datasets.OWN:
        # The file does not know which images its training held out.
        raise SignwiseError(f"{arguments.target} was trained on images of your own: evaluate the run's folder instead")
    data = datasets.load(name, arguments.data)
    images, labels = data.test_images[: arguments.samples], data.test_labels[: arguments.samples]
    if program.input_shape != data.image_shape:
        raise SignwiseError(f"{arguments.target} takes images of {program.input_shape}, {name} has {data.image_shape}")
    return {
        "what": str(arguments.target),
        "dataset": name,
        "images": len(images),
        "error": 100 * error_rate(program.session(arguments.threads), images, labels),
        "about": dict(program.about),
    }
