"""Render README and docs from the records in ``results/``.

    python -m tools.render_docs            # make render runs this after signwise reproduce

Nothing is measured here. A missing record is reported in its place; rendering again changes nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from signwise.figures import save
from signwise.figures.bars import bars_figure
from signwise.reproduce.render import write_if_changed
from signwise.reproduce.tables import Table
from tools import (
    acceptance,
    exports,
    fine_tuning,
    gallery,
    language_models,
    networks,
    platforms,
    readme,
    reliability,
    results,
    speed,
)
from tools.inference_records import JsonObject, read_records
from tools.markers import filled

ROOT = Path(__file__).parents[1]
MISSING = "_Not recorded yet._"


def pages(root: Path) -> dict[Path, str]:
    """The text of every rendered page, by its path relative to the repository."""
    recorded = root / "results"
    inference = read_records(recorded)
    blocks = {
        Path("README.md"): readme.blocks(recorded),
        Path("docs/compile.md"): networks.blocks(recorded),
        Path("docs/browser.md"): {
            "browser": platforms.browser(recorded),
            "speed": exports.speed(recorded, ["wasm"]),
        },
        Path("docs/fine-tune.md"): fine_tuning.blocks(recorded, MISSING),
        Path("docs/gallery.md"): gallery.blocks(recorded, MISSING),
        Path("docs/install.md"): {"wheels": platforms.wheels(recorded)},
        Path("docs/export.md"): {"targets": exports.targets(recorded)},
        Path("docs/export-onnx.md"): {
            "onnx": exports.onnx(recorded),
            "speed": exports.speed(recorded, ["onnxruntime", "openvino"]),
        },
        Path("docs/microcontrollers.md"): {"microcontrollers": exports.microcontrollers(recorded)},
        Path("docs/language-models.md"): language_models.blocks(recorded, MISSING),
        Path("docs/kernels.md"): {"kernels": kernels(recorded)},
        Path("docs/pack-and-ship.md"): {"activations": activations(recorded)},
        Path("docs/acceptance.md"): acceptance.blocks(recorded),
        Path("docs/reliability.md"): reliability.blocks(recorded),
        Path("docs/results.md"): results.blocks(recorded),
        Path("docs/speed.md"): speed.blocks(inference),
    }
    rendered = {path: filled(root / path, found) for path, found in blocks.items()}
    return rendered | {speed.ALL_TIMES: speed.all_times(inference)}


def _read(path: Path) -> JsonObject | None:
    if not path.exists():
        return None
    record: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    return record


def kernels(recorded: Path) -> str:
    """The block of ``docs/kernels.md``."""
    record = _read(recorded / "kernels.json")
    return MISSING if record is None else kernel_tables(record)


def kernel_tables(record: JsonObject) -> str:
    """How close each binary layer of ResNet-18 comes to the limit, one table per instruction set."""
    parts = []
    for isa in dict.fromkeys(row["isa"] for row in record["layers"]):
        rows = [row for row in record["layers"] if row["isa"] == isa]
        layers: dict[str, dict[str, JsonObject]] = {}
        for row in rows:
            layers.setdefault(_layer(row), {})[row["activations"]] = row
        cells = tuple(
            (layer, *_float_cells(kinds["float32"]), *_rate(kinds["int8"])) for layer, kinds in layers.items()
        )
        phases = "prepare / build / sums / finish, %"
        headings = ("layer", "µs", "G/s", "of the limit", phases, "8-bit G/s", "of its limit")
        gigahertz = sorted(row["clock_gigahertz"] for row in rows)
        vectors = "one vector" if rows[0]["vectors_a_cycle"] == 1 else "two vectors"
        parts.append(f"**{isa}**, at {gigahertz[0]:.1f} to {gigahertz[-1]:.1f} GHz, at most {vectors} per cycle:")
        parts.append(Table(headings=headings, rows=cells, words=1).markdown())
    parts.append(
        "The binary layers of ResNet-18, one image, one thread. G/s are 10⁹ additions per second, as many as the "
        "multiply-adds of the same layer in float32. *Prepare* copies the input into padded planes, *build* fills the "
        "tables, *sums* looks them up, *finish* is the epilogue. "
        f"Measured {record['date'][:10]} on an {record['hardware']['processor']} by `benchmarks/kernels.py`: "
        "[the record](../results/kernels.json)."
    )
    return "\n\n".join(parts)


def _layer(row: JsonObject) -> str:
    stride = f", stride {row['stride']}" if row["stride"] > 1 else ""
    return f"{row['count']} × {row['channels']} → {row['filters']}, {row['size']}x{row['size']}{stride}"


def _float_cells(row: JsonObject) -> tuple[str, ...]:
    shares = " / ".join(f"{100 * row['shares'][name]:.0f}" for name in ("prepare", "build", "sums", "finish"))
    return (f"{1e6 * row['seconds']:.0f}", *_rate(row), shares)


def _rate(row: JsonObject) -> tuple[str, str]:
    return f"{row['giga_additions_a_second']:.0f}", f"{100 * row['share_of_limit']:.0f} %"


def activations(recorded: Path) -> str:
    """The block of ``docs/pack-and-ship.md``: errors of trained networks by the type of their activations."""
    record = _read(recorded / "activations.json")
    if record is None:
        return MISSING
    rows = tuple(
        (
            f"{row['recipe']}, {row['epochs']} epochs, T_α {row['t_alpha']:g}",
            *(f"{row['errors'][kind]:.2f} %" for kind in ("float32", "eight_bits", "six_bits")),
        )
        for row in record["runs"]
    )
    headings = ("trained, 1 bit", "float32", "8 bits", "6 bits before 3x3")
    return (
        Table(headings=headings, rows=rows, words=1).markdown()
        + f"\n\nErrors on all test images, one seed each; scales from {record['examples_for_scales']} training images. "
        f"Measured {record['date'][:10]} by `benchmarks/activations.py`: [the record](../results/activations.json)."
    )


def draw_pictures(root: Path) -> None:
    """Draw README's picture, and that of the language models."""
    recorded = root / "results"
    inference = readme.overview_records(recorded)
    if inference:
        newest = next(iter(inference.values()))
        figure = bars_figure(readme.picture(newest, readme.lenet5_errors(recorded)), width=11.0)
        save(figure, root / readme.PICTURE)
    losses = _read(recorded / "language-model.json")
    if losses is not None:
        save(language_models.loss_figure(losses), root / language_models.PICTURE)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (this one)")
    root: Path = parser.parse_args(words).root
    draw_pictures(root)
    for path, text in pages(root).items():
        print(f"{path} {'rendered' if write_if_changed(root / path, text) else 'is up to date'}")


if __name__ == "__main__":
    main()
