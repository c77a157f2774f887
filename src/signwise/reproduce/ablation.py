"""Ablation of the choices that the paper leaves open: LeNet5 for a few hundred steps, one choice changed at a time.

The result is one record, ``ablation.json``, and one table.
"""

from __future__ import annotations

import json
import statistics
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from signwise import datasets, provenance
from signwise.convert import binarize_, last
from signwise.errors import FormatError
from signwise.reproduce.tables import Table, network_title
from signwise.training.data import Split, TrainingData, derived_seed, standardized_data
from signwise.training.distributed import World
from signwise.training.evaluate import score
from signwise.training.recipe import Options, Recipe
from signwise.training.recipes import get_recipe
from signwise.training.step import Stepper, build_model

FILE = "ablation.json"
"""The name of the record in the folder of records."""

_EPOCHS, _IMAGES, _TEST_IMAGES, _SEEDS = 10, 3000, 2000, 3
_CLASSES = 10


def _default_model(recipe: Recipe) -> nn.Module:
    return build_model(recipe, _CLASSES)


def _same_data(data: TrainingData) -> TrainingData:
    return data


def _same_decay(stepper: Stepper) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One choice that the paper leaves open; everything else is as in the recipe.

    Args:
        question: what the paper does not specify.
        answer: the choice.
        settings: settings of the recipe to change.
        model: builds the binary model.
        data: changes the standardized data.
        decay: changes which parameters decay.
    """

    question: str
    answer: str
    settings: dict[str, Any] = field(default_factory=dict)
    model: Callable[[Recipe], nn.Module] = _default_model
    data: Callable[[TrainingData], TrainingData] = _same_data
    decay: Callable[[Stepper], None] = _same_decay


def _classic_lenet5(recipe: Recipe) -> nn.Module:
    """The layers of the original LeNet5: 6 and 16 filters, 120 and 84 neurons."""
    torch.manual_seed(derived_seed(recipe.seed, "initialization", 0))
    model = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 6, 5, padding=2, bias=False),  # 28 -> 28
            norm1=nn.BatchNorm2d(6),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),  # 28 -> 14
            conv2=nn.Conv2d(6, 16, 5, bias=False),  # 14 -> 10
            norm2=nn.BatchNorm2d(16),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),  # 10 -> 5
            flatten=nn.Flatten(),  # (N, 16, 5, 5) -> (N, 400)
            dense1=nn.Linear(400, 120, bias=False),
            norm3=nn.BatchNorm1d(120),
            relu3=nn.ReLU(),
            dense2=nn.Linear(120, 84, bias=False),
            norm4=nn.BatchNorm1d(84),
            relu4=nn.ReLU(),
            dense3=nn.Linear(84, _CLASSES),
        )
    )
    binarize_(model, skip=last)
    return model


def _initialized(initialize: Callable[..., Any]) -> Callable[[Recipe], nn.Module]:
    def build(recipe: Recipe) -> nn.Module:
        model = _default_model(recipe)
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                initialize(module.weight)
        return model

    return build


def _pixels_from_0_to_1(data: TrainingData) -> TrainingData:
    """Undo the standardization, which is one affine map from pixels 0 and 255."""
    low, high = data.train.images.min(), data.train.images.max()

    def scaled(split: Split) -> Split:
        return Split((split.images - low) / (high - low), split.labels)

    return TrainingData(train=scaled(data.train), test=scaled(data.test))


def _decay_everything(stepper: Stepper) -> None:
    # Before the first step, when the optimizer still holds the initial values.
    for group in stepper.optimizer.param_groups:
        group["weight_decay"] = stepper.recipe.weight_decay


def choices(recipe: Recipe) -> tuple[Choice, ...]:
    """The choices, the recipe's own first.

    Args:
        recipe: the recipe that they change.
    """
    by_rate = recipe.weight_decay * recipe.learning_rate
    return (
        Choice(question="all of them", answer="as in the recipes here"),
        Choice(question="layer list", answer="6 and 16 filters, 120 and 84 neurons", model=_classic_lenet5),
        Choice(question="layer list", answer="first layer in full precision", settings={"skip": "first_and_last"}),
        Choice(question="weight decay", answer="on biases and norms too", decay=_decay_everything),
        Choice(question="weight decay", answer="times the learning rate", settings={"weight_decay": by_rate}),
        Choice(question="weight decay", answer="none", settings={"weight_decay": 0.0}),
        Choice(question="initialization", answer="Glorot, uniform", model=_initialized(nn.init.xavier_uniform_)),
        Choice(question="initialization", answer="He, normal", model=_initialized(nn.init.kaiming_normal_)),
        Choice(question="input scaling", answer="pixels from 0 to 1", data=_pixels_from_0_to_1),
    )


def measure_ablation(
    records: Path,
    say: Callable[[str], None],
    *,
    data: Path | None = None,
    epochs: int = _EPOCHS,
    images: int = _IMAGES,
    test_images: int = _TEST_IMAGES,
    seeds: int = _SEEDS,
) -> Path:
    """Train every choice with a few seeds and record the errors.

    Args:
        records: the folder for the record.
        say: called with each result.
        data: folder with MNIST, or ``None`` for the one in the package.
        epochs: epochs per training.
        images: training images.
        test_images: test images.
        seeds: trainings per choice.

    Returns:
        The record's path.
    """
    recipe = get_recipe("lenet5-mnist").changed(epochs=epochs, train_samples=images, test_samples=test_images)
    loaded = datasets.load(recipe.dataset, data)
    prepared = standardized_data(loaded, torch.device("cpu"), train_samples=images, test_samples=test_images)
    measured = []
    for index, choice in enumerate(choices(recipe)):
        errors = [trained_error(choice, recipe.changed(seed=seed), prepared) for seed in range(seeds)]
        mean, deviation = statistics.fmean(errors), statistics.stdev(errors) if seeds > 1 else 0.0
        say(f"{choice.question}, {choice.answer}: {mean:.2f} ± {deviation:.2f} %")
        measured.append(
            {
                "question": choice.question,
                "choice": choice.answer,
                "is_ours": index == 0,
                "mean": round(mean, 4),
                "deviation": round(deviation, 4),
                "errors": [round(error, 4) for error in errors],
            }
        )
    record = {
        "kind": "ablation",
        "network": network_title(recipe.model),
        "epochs": epochs,
        "images": images,
        "test_images": test_images,
        "seeds": seeds,
        "recipe": recipe.to_json(),
        "choices": measured,
    }
    provenance.write_record(records / FILE, record)
    return records / FILE


def trained_error(choice: Choice, recipe: Recipe, data: TrainingData) -> float:
    """The error of sign(φ) in percent, after training with a choice."""
    world = World(rank=0, size=1, device=torch.device("cpu"))
    changed, seen = recipe.changed(**choice.settings), choice.data(data)
    model = choice.model(changed)
    stepper = Stepper(changed, Options(), model, seen, world)
    choice.decay(stepper)
    model.train()
    for step in range(stepper.total_steps):
        stepper.step(step)
    return score(model, seen.test, world).error


def ablation_markdown(records: Path) -> str:
    """The recorded ablation as a table and a sentence about its setting; a note if there is no record."""
    path = records / FILE
    if not path.exists():
        return "_Not measured yet._"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        table = _table(document)
        note = (
            f"{document['network']} with 1 bit, {document['epochs']} epochs of {document['images']:,} images, tested "
            f"on {document['test_images']:,}; error of sign(φ) after the last step, mean and standard deviation over "
            f"{document['seeds']} seeds. "
            f"{document['hardware']['processor']}, PyTorch {document['versions']['torch']}, {document['date'][:10]}."
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: not a record of the ablation: {error}") from None
    return f"{table.markdown()}\n\n{note}"


def _table(document: dict[str, Any]) -> Table:
    ours = document["choices"][0]["mean"]
    rows = tuple(
        (
            choice["question"],
            choice["choice"],
            f"{choice['mean']:.2f} ± {choice['deviation']:.2f}",
            "" if choice["is_ours"] else f"{choice['mean'] - ours:+.2f}",
        )
        for choice in document["choices"]
    )
    return Table(headings=("Open in the paper", "Choice", "Error, %", "Difference"), rows=rows, words=2)
