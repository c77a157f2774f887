"""``signwise compile``: a trained run to one packed file."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signwise.cli.paths import check_output, check_run
from signwise.errors import SignwiseError
from signwise.invocation import command

if TYPE_CHECKING:
    from signwise.datasets import ImageData
    from signwise.program import IntegerProgram, Program

_SLOW = 1_000_000_000  # multiply-adds per image

_EXAMPLES = """examples:
  signwise compile runs/resnet18-cifar10                         to resnet18-cifar10.sw
  signwise compile runs/resnet18-cifar10 --activations int8      integer additions, faster still
  signwise compile runs/tiny_cnn-mnist --activations integers    nothing but integers, for microcontrollers
  signwise compile runs/lenet5-mnist --which last -o lenet5.sw
"""


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "compile",
        help="turn a run into a packed file",
        description="Turn a trained model into one packed file that runs without PyTorch and takes raw pixels.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="RUN", type=Path, help="a run's folder")
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="the file to write (default: RUN.sw, after the run's folder)"
    )
    parser.add_argument("--which", choices=("best", "last"), default="best", help="which weights of the run (best)")
    parser.add_argument(
        "--activations",
        choices=("float32", "int8", "integers"),
        default="float32",
        help="float32; int8: 8 bits where binary layers read; integers: all arithmetic, for microcontrollers (float32)",
    )
    parser.add_argument(
        "--calibrate", type=int, default=128, metavar="N", help="int8, integers: training images for scales (128)"
    )
    parser.add_argument(
        "--no-six-bit-inputs",
        "--no-narrow",
        dest="six_bit_inputs",
        action="store_false",
        help="int8: use eight bits even where six make 3x3 convolutions faster",
    )
    parser.add_argument(
        "--validate",
        type=int,
        metavar="N",
        help="test images to measure the error on; 0 for none (default: all, or 1000 for a slow network)",
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where the data set is (default: the cache)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compile, measure, save and print what came out."""
    if arguments.calibrate < 1 or (arguments.validate or 0) < 0:
        raise SignwiseError("--calibrate must be at least 1 and --validate at least 0")
    check_run(arguments.folder)
    out = arguments.out or Path(f"{arguments.folder.resolve().name}.sw")
    check_output(out)
    from signwise.program.measures import error_text, times_smaller
    from signwise.training.data import load_images
    from signwise.training.deploy import program_of_run
    from signwise.training.run_folder import load_run, recorded_data

    trained = load_run(arguments.folder, arguments.which)
    if "finished" not in trained.config:
        print(f"note: the run has not finished, its weights are from step {trained.step:,}", file=sys.stderr)
    program = program_of_run(trained, arguments.which)
    programs: dict[str, Program | IntegerProgram] = {"error": program}
    count, is_float32 = _test_images(arguments.validate, program), arguments.activations == "float32"
    if not is_float32 or count != 0:
        data = load_images(trained.recipe, arguments.data or recorded_data(trained.config))
    if not is_float32:
        programs = {"error with float32 activations": program, "error": _in_integers(program, data, arguments)}
    made = programs["error"]
    if count != 0:
        images, labels = data.test_images[:count], data.test_labels[:count]
        errors = {
            name: error_text(each.error(images, labels), len(images), len(data.test_images))
            for name, each in programs.items()
        }
        made = made.with_about(errors)
        for name, text in errors.items():
            print(f"test {name}: {text}")
    made.save(out)
    size = out.stat().st_size
    print(f"{out}: {size:,} bytes, {times_smaller(made.float32_bytes, size)}")
    print(f"next: {command()} inspect {shlex.quote(str(out))}")
    return 0


def _in_integers(program: Program, data: ImageData, arguments: argparse.Namespace) -> Program | IntegerProgram:
    """The program with 8-bit activations, or with nothing but integers."""
    examples = data.examples(arguments.calibrate)
    if arguments.activations == "integers":
        return program.to_integers(examples)
    return program.quantize(examples, six_bit_inputs=arguments.six_bit_inputs)


def _test_images(asked: int | None, program: Program) -> int | None:
    """How many of the test images to measure the error on; ``None`` for all."""
    if asked is not None:
        return asked
    work = sum(
        operation.work([program.shapes[value] for value in operation.inputs], program.shapes[number])
        for number, operation in enumerate(program.ops, start=1)
    )
    # All test images of most networks take less than a minute: `signwise eval` then gives the same error. Ten thousand
    # through a wide one would take many.
    return None if work < _SLOW else 1000
