"""What 8-bit activations cost in accuracy: trained runs in float32, in eight bits, and in six where that is faster.

    python benchmarks/activations.py RUN...    # a minute per run; writes results/activations.json

Scales come from 128 training images; errors are measured on the whole test set.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from signwise import datasets
from signwise.compiler import compile as compile_model
from signwise.provenance import write_record
from signwise.training.run_folder import load_run

CALIBRATED_ON = 128


def measure(folder: Path, data_folder: Path | None) -> dict[str, Any]:
    """The errors of one run, in percent."""
    trained = load_run(folder, "best")
    recipe, model = trained.recipe, trained.on_raw_pixels()
    data = datasets.load(recipe.dataset, data_folder)
    calibrate = data.examples(CALIBRATED_ON)
    example = torch.zeros(1, *trained.config["network"]["input_shape"])
    program = compile_model(model, example)
    programs = {
        "float32": program,
        "eight_bits": program.quantize(calibrate, six_bit_inputs=False),
        "six_bits": program.quantize(calibrate),
    }
    errors = {name: 100 * program.error(data.test_images, data.test_labels) for name, program in programs.items()}
    about = {"recipe": recipe.name, "epochs": recipe.epochs, "t_alpha": recipe.t_alpha, "seed": recipe.seed}
    return {**about, "examples": len(data.test_images), "errors": errors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, help="where the data sets are (default: the cache)")
    parser.add_argument("--out", type=Path, default=Path("results/activations.json"))
    arguments = parser.parse_args()
    rows = []
    for folder in arguments.runs:
        rows.append(measure(folder, arguments.data))
        print(rows[-1])
    write_record(arguments.out, {"examples_for_scales": CALIBRATED_ON, "runs": rows})


if __name__ == "__main__":
    main()
