"""Make the trained networks that the package ships: one packed file each, from the best recorded run of a recipe.

python -m tools.ship                               # all, from the run folders in runs/ and the records in results/
python -m tools.ship --recipe vgg_fast-cifar10     # one of them
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from signwise import datasets
from signwise.compiler import compile as compile_model
from signwise.errors import SignwiseError
from signwise.reproduce.experiments import is_fine_tuned, is_full
from signwise.reproduce.records import Record, read_training_records
from signwise.reproduce.runs import plan
from signwise.training.run_folder import load_run

ROOT = Path(__file__).parents[1]
SHIPPED = ("lenet5-mnist", "vgg_fast-cifar10", "tiny_cnn-mnist", "resnet8-cifar10", "resnet20_fast-cifar10")
"""The recipes whose 1-bit networks are shipped."""


def best_record(records: Iterable[Record], name: str = SHIPPED[0]) -> Record | None:
    """The record of a recipe's best 1-bit network that was trained or fine-tuned in full, or ``None``."""
    complete = [
        record
        for record in records
        if record.recipe.name == name
        and record.recipe.bits == 1
        and (is_full(record.recipe) or is_fine_tuned(record.recipe))
    ]
    return min(complete, key=lambda record: (record.result.best_error, record.recipe.seed), default=None)


def ship(run: Path, record: Record, folder: Path, data: Path | None = None) -> Path:
    """Compile a run's best weights into the file that the package ships.

    Args:
        run: the run's folder.
        record: its record.
        folder: where the file goes, under the recipe's name and bits.
        data: folder with the data set, or ``None`` for the cache.

    Raises:
        SignwiseError: the packed file does not make exactly as many errors on the test images as the record says.
    """
    loaded = load_run(run, "best")
    example = torch.zeros(1, *loaded.config["network"]["input_shape"])
    program = compile_model(loaded.on_raw_pixels(), example, about=_about(record))
    test = datasets.load(record.recipe.dataset, data)
    images, labels = (part[: record.recipe.test_samples] for part in (test.test_images, test.test_labels))
    error = 100 * program.error(images, labels)
    if round(error, 4) != record.result.best_error:
        raise SignwiseError(
            f"the packed network of {run} has an error of {error:.4f} %, its record says {record.result.best_error} %: "
            "it is not shipped"
        )
    path = folder / f"{record.recipe.name}-{record.recipe.bits}bit.sw"
    folder.mkdir(parents=True, exist_ok=True)
    program.save(path)
    return path


def _about(record: Record) -> dict[str, str]:
    recipe, result, origin = record.recipe, record.result, record.origin
    return {
        "recipe": f"{recipe.name}, {recipe.bits} bit",
        "dataset": recipe.dataset,
        "input": "raw pixels, 0 to 255",
        "error": f"{result.best_error:.2f} % of the test images",
        "epochs": f"{recipe.epochs}, these are the weights of epoch {result.best_epoch}",
        "seed": str(recipe.seed),
        "record": record.name,
        "trained": str(origin["finished"]),
        "revision": str(origin["revision"]),
        "signwise": str(origin["versions"]["signwise"]),
    }


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder of run folders (runs)")
    parser.add_argument("--records", type=Path, default=ROOT / "results", help="the folder of records (results)")
    parser.add_argument("--out", type=Path, default=ROOT / "src/signwise/shipped", help="where the file goes")
    parser.add_argument("--data", type=Path, help="folder with the data set (default: the cache)")
    parser.add_argument("--recipe", choices=SHIPPED, help="ship this network alone (default: all)")
    arguments = parser.parse_args(words)
    records = read_training_records(arguments.records)
    for name in SHIPPED if arguments.recipe is None else (arguments.recipe,):
        record = best_record(records, name)
        if record is None:
            raise SignwiseError(f"there is no full record of {name} with 1 bit yet: run signwise train {name}")
        folder = plan([record.recipe], [], arguments.runs)[0].folder
        path = ship(folder, record, arguments.out, arguments.data)
        print(f"shipped {path}: {path.stat().st_size:,} bytes, error {record.result.best_error:.2f} %")


if __name__ == "__main__":
    main()
