"""How many epochs a trained float network needs to become binary and stay within one point of its error.

    python benchmarks/fine_tuning.py lenet5-mnist --from runs/lenet5-mnist-32bit
    python benchmarks/fine_tuning.py vgg_fast-cifar10 --from runs/vgg_fast-cifar10-32bit --bfloat16 --runs runs/tuned

Fine-tunes for 1, 2, 3, ... epochs, each with a schedule of that length, until the last error is within a point of the
float network's; first with labels alone, then with the float network as teacher. Each training enters its figures into
results/fine-tuning.json when it ends; what is recorded there for the same float network is not trained again. With
``--runs`` the trainings keep their folders, and the same command continues after an interruption. The errors are those
of the last epoch, not the best: nothing is chosen on the test set.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from signwise import datasets, provenance
from signwise.reproduce.render import write_if_changed
from signwise.text import counted
from signwise.training import Options, get_recipe, train
from signwise.training.data import standardized_data
from signwise.training.distributed import World
from signwise.training.evaluate import score
from signwise.training.pretrained import build_teacher, read_pretrained


def float_error(recipe_name: str, source: str, data: Path | None, samples: int | None) -> float:
    """The error of the float network on the test images, in percent."""
    recipe = get_recipe(recipe_name).fine_tuning(source)
    images = datasets.load(recipe.dataset, data)
    model = build_teacher(recipe, len(images.classes), read_pretrained(source))
    device = torch.device("cpu")
    test = standardized_data(images, device, train_samples=1, test_samples=samples).test
    return score(model, test, World(rank=0, size=1, device=device)).error


def fine_tuned_error(arguments: argparse.Namespace, source: str, epochs: int, distill: bool) -> float:
    """Fine-tune for some epochs, or finish a training that was interrupted, and return the last error in percent."""
    recipe = get_recipe(arguments.recipe).fine_tuning(source)
    recipe = recipe.changed(epochs=epochs, distill=distill, train_samples=arguments.samples)
    if arguments.lr is not None:
        recipe = recipe.changed(learning_rate=arguments.lr)
    name = f"{recipe.name}-{epochs}{'-taught' if distill else ''}"
    options = Options(
        data=arguments.data,
        device=arguments.device,
        bfloat16=arguments.bfloat16 or None,
        threads=arguments.threads,
        resume=arguments.runs is not None,
        relaxed_every=epochs,
    )
    outcome = train(recipe, arguments.runs and arguments.runs / name, options=options)
    if outcome.signal is not None:
        raise SystemExit(f"{name} stopped after step {outcome.progress.step}: the same command continues")
    assert outcome.progress.last_error is not None
    return outcome.progress.last_error


def measure(arguments: argparse.Namespace) -> None:
    """Fine-tune without and with the teacher, longer and longer, until the error is near enough."""
    source = str(arguments.source.resolve())
    base = float_error(arguments.recipe, source, arguments.data, arguments.samples)
    print(f"float network: {base:.2f} %", flush=True)
    settings = {
        "recipe": arguments.recipe,
        "dataset": get_recipe(arguments.recipe).dataset,
        "float_error": base,
        "float_sha256": read_pretrained(source).sha256,
        "within": arguments.within,
        "samples": arguments.samples,
        "learning_rate": arguments.lr or get_recipe(arguments.recipe).fine_tuning(source).learning_rate,
        "bfloat16": arguments.bfloat16,
    }
    rows: list[dict[str, Any]] = [
        row for network in recorded(arguments.out) if settings.items() <= network.items() for row in network["runs"]
    ]
    about = {
        "date": provenance.now(),
        "versions": provenance.versions(),
        "hardware": provenance.hardware(),
        "revision": provenance.revision(),
    }
    for distill in (False, True):
        for epochs in arguments.epochs:
            known = [row["error"] for row in rows if (row["epochs"], row["distill"]) == (epochs, distill)]
            error = known[0] if known else fine_tuned_error(arguments, source, epochs, distill)
            print(f"{counted(epochs, 'epoch')}{', distilled' if distill else ''}: {error:.2f} %", flush=True)
            if not known:
                rows.append({"epochs": epochs, "distill": distill, "error": error, "revision": about["revision"]})
                rows.sort(key=lambda row: (row["distill"], row["epochs"]))
                enter(about | settings | {"runs": rows}, arguments.out)
            if error <= base + arguments.within:
                break


def recorded(path: Path) -> list[dict[str, Any]]:
    """The networks in the record, each with its settings and figures."""
    networks: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["networks"] if path.exists() else []
    return networks


def enter(measured: dict[str, Any], path: Path) -> None:
    """Put a float network's figures into the record, in place of older ones of the same network."""
    records = [record for record in recorded(path) if record["float_sha256"] != measured["float_sha256"]] + [measured]
    records.sort(key=lambda record: (str(record["recipe"]), str(record["date"])))
    text = json.dumps({"networks": records}, indent=2) + "\n"
    write_if_changed(path, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--from", dest="source", type=Path, required=True, help="the float run, or its weights")
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 2, 3, 5, 10, 20], help="lengths to try, rising")
    parser.add_argument("--within", type=float, default=1.0, metavar="POINTS")
    parser.add_argument("--samples", type=int, metavar="N", help="train and test on N images only, for a quick look")
    parser.add_argument("--data", type=Path, help="where the data sets are (default: the cache)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--bfloat16", action="store_true", help="mixed precision")
    parser.add_argument("--lr", type=float, help="learning rate (default: the recipe's)")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--runs", type=Path, help="keep the trainings here, to resume them")
    parser.add_argument("--out", type=Path, default=Path("results/fine-tuning.json"))
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
