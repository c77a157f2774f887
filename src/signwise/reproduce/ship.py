"""The trained network that comes with the package: one packed file, made from a recorded run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch

from signwise import datasets
from signwise.compiler import compile as compile_model
from signwise.errors import SignwiseError
from signwise.program.evaluate import error_rate
from signwise.program.program import Program
from signwise.reproduce.naming import is_full
from signwise.reproduce.record import Record
from signwise.training.trained import Trained, load_run


def worth_shipping(records: Iterable[Record]) -> Record | None:
    """The record of the best 1-bit LeNet5 that was trained in full, or ``None``."""
    name = "lenet5-mnist"
    trained = [entry for entry in records if entry.recipe.name == name and entry.recipe.bits == 1]
    full = [entry for entry in trained if is_full(entry.recipe)]
    return min(full, key=lambda entry: (entry.result.best_error, entry.recipe.seed), default=None)


def ship(run: Path, record: Record, folder: Path, data: Path | None = None) -> Path:
    """Compile a run's best weights into the file that the package ships.

    Args:
        run: the run's folder.
        record: its record.
        folder: where the file goes, under the recipe's name and bits.
        data: where the data set is, or ``None`` for the cache.

    Returns:
        The file.

    Raises:
        SignwiseError: the packed network does not make exactly as many errors on the test images as the record says.
    """
    trained = load_run(run, "best")
    program = _compiled(trained, _about(record))
    test = datasets.load(record.recipe.dataset, data)
    images, labels = (part[: record.recipe.test_samples] for part in (test.test_images, test.test_labels))
    error = 100 * error_rate(program, images, labels)
    if round(error, 4) != record.result.best_error:
        raise SignwiseError(
            f"the packed network of {run} has an error of {error:.4f} %, its record says {record.result.best_error} %: "
            "it is not shipped"
        )
    path = folder / f"{record.recipe.name}-{record.recipe.bits}bit.sw"
    folder.mkdir(parents=True, exist_ok=True)
    program.save(path)
    return path


def _compiled(trained: Trained, about: dict[str, str]) -> Program:
    example = torch.zeros(1, *trained.config["network"]["input_shape"])
    return compile_model(trained.on_raw_pixels(), example, about=about)


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
