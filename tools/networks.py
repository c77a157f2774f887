"""The parts of ``docs/compile.md`` that come from the code and from records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from signwise.compiler.translate import DECOMPOSED, SHAPE_ALONE
from signwise.compiler.translations.elementwise import ELEMENTWISE
from signwise.compiler.translations.functions import FUNCTIONS
from signwise.compiler.translations.indices import INDICES
from signwise.compiler.translations.layers import LAYERS
from signwise.compiler.translations.moves import MOVES
from signwise.compiler.translations.pools import POOLS
from signwise.compiler.translations.products import PRODUCTS
from signwise.reproduce.tables import Table
from tools.inference_records import JsonObject

MISSING = "_Not recorded yet._"
FAMILIES: dict[str, Iterable[str]] = {
    "layers, norms": LAYERS,
    "activations, arithmetic": ELEMENTWISE,
    "functions, statistics, distances": FUNCTIONS,
    "products, attention": PRODUCTS,
    "moves": MOVES,
    "indices": INDICES,
    "pools, reductions, resampling": POOLS,
    "constants of a shape": SHAPE_ALONE,
    "taken apart into others": DECOMPOSED,
}


def blocks(recorded: Path) -> dict[str, str]:
    """The blocks of ``docs/compile.md``."""
    return {"operators": operators(), "networks": networks(recorded), "differential": differential(recorded)}


def operators() -> str:
    """The table of the compiler's translations."""
    rows = tuple((family, ", ".join(f"`{name}`" for name in names(table))) for family, table in FAMILIES.items())
    return Table(headings=("family", "operators of PyTorch"), rows=rows, words=2).markdown()


def names(operators: Iterable[str]) -> list[str]:
    """What people call PyTorch's operators, each once, sorted.

    Example:
        >>> names(["aten.relu.default", "aten.relu_.default", "aten._native_batch_norm_legit_no_training.default"])
        ['batch_norm', 'relu']
    """
    found = set()
    for operator in operators:
        library, name, *_ = operator.split(".")
        name = "batch_norm" if "batch_norm" in name else name.rstrip("_")
        if not name.startswith("_"):  # other names of the same
            found.add(name if library == "aten" else f"{library}.{name}")
    return sorted(found)


def networks(recorded: Path) -> str:
    """One row per network: compiles, bytes, errors, accuracy, time beside the fastest engine."""
    record = _read(recorded / "networks.json")
    if record is None:
        return MISSING
    rows = tuple(
        (
            row["name"],
            f"{row['first_loss']:.2f} → {row['last_loss']:.2f}",
            f"{row['state_bytes']:,}",
            f"{row['file_bytes']:,}",
            f"{row['state_bytes'] / row['file_bytes']:.1f}",
            f"{row['difference']:.0e}",
            f"{100 * row['int8_difference']:.2f} %",
            _quality(row),
            *(_times(row, precision) for precision in ("float32", "int8")),
        )
        for row in record["networks"]
    )
    headings = (
        "network", "loss", "float32 bytes", "file", "smaller", "error", "8-bit error", "accuracy, 8-bit",
        "µs, beside the fastest", "8-bit µs, beside",
    )  # fmt: skip
    said = (
        f"Trained for {record['steps']} steps of 32 examples, tested on {record['tested']:,}. *error* is the largest "
        "difference of the program's outputs from PyTorch's, *8-bit error* the mean difference that 8-bit activations "
        "make, both relative to the largest output; where there is no accuracy, the loss stands in its place. Times of "
        f"one example with one thread, on {record['hardware']['processor']}, {record['date'][:10]}: "
        "[the record](../results/networks.json)."
    )
    return f"{Table(headings=headings, rows=rows, words=1).markdown()}\n\n{said}"


def _quality(row: JsonObject) -> str:
    plain, rounded = row["accuracy"]["float32"], row["accuracy"]["int8"]
    if plain is None:
        return f"loss {row['loss']['float32']:.4f}, {row['loss']['int8']:.4f}"
    return f"{100 * plain:.1f} %, {100 * rounded:.1f} %"


def _times(row: JsonObject, precision: str) -> str:
    timed = [found for found in row.get("times", []) if found["precision"] == precision and "seconds" in found]
    ours = next((found["seconds"] for found in timed if found["engine"] == "signwise"), None)
    peer = min((found for found in timed if not found["ours"]), key=lambda found: found["seconds"], default=None)
    if ours is None:
        return "–"
    beside = "" if peer is None else f", {peer['engine']} {1e6 * peer['seconds']:,.0f}"
    return f"{1e6 * ours:,.0f}{beside}"


def differential(recorded: Path) -> str:
    """How many random programs agreed with numpy on each instruction set."""
    record = _read(recorded / "differential.json")
    if record is None:
        return MISSING
    rows = tuple(
        (
            isa,
            f"{found['programs']:,}",
            f"{found['operations']:,} of {found['kinds']} kinds",
            f"{found['numbers']:,}",
            f"{found['largest_error']:.0e}",
            f"{found['at_an_edge']:,}",
        )
        for isa, found in record["sets"].items()
    )
    headings = ("instruction set", "programs", "operations", "numbers", "largest error", "at an edge")
    said = f"{record['date'][:10]}, {record['hardware']['processor']}: [the record](../results/differential.json)."
    return f"{Table(headings=headings, rows=rows, words=1).markdown()}\n\n{said}"


def _read(path: Path) -> JsonObject | None:
    if not path.exists():
        return None
    record: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    return record
