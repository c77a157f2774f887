"""What 8-bit activations cost in accuracy: trained runs with float32, eight bits, and six where that is faster.

    python benchmarks/activations.py RUN...    # a minute a run; writes results/activations.json

Scales are chosen on 128 training images, and errors are those on the whole test set.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from signwise import datasets
from signwise.compiler import compile as compile_model
from signwise.program.evaluate import error_rate
from signwise.provenance import write_record
from signwise.training.run_folder import load_run

CALIBRATED_ON = 128


def measure(folder: Path, data_folder: Path | None) -> dict[str, Any]:
    """The errors of one run, in percent."""
    trained = load_run(folder, "best")
    recipe, model = trained.recipe, trained.on_raw_pixels()
    data = datasets.load(recipe.dataset, data_folder)
    calibrate = data.train_images[:: len(data.train_images) // CALIBRATED_ON][:CALIBRATED_ON]
    example = torch.zeros(1, *trained.config["network"]["input_shape"])
    programs = {
        "float32": compile_model(model, example),
        "eight_bits": compile_model(model, example, "int8", calibrate=calibrate, narrow=False),
        "six_bits": compile_model(model, example, "int8", calibrate=calibrate),
    }
    errors = {name: 100 * error_rate(program, data.test_images, data.test_labels) for name, program in programs.items()}
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
