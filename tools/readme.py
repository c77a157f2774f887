"""README's picture, speed table and facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from signwise.figures.bars import Bar, Panel
from signwise.reproduce.records import ABSENT, Record, Repeated, by_recipe, read_training_records
from signwise.reproduce.tables import Table, full_results, network_title, recipe_title
from tools import inference_records
from tools.inference_records import JsonObject, against_fastest_peer, engine_times, packed_bytes, read_records
from tools.ship import best_record

MISSING = "_Not recorded yet._"
PICTURE = Path("results/rendered/overview.png")
NETWORK = "resnet18"
"""The network of the picture, and the one that compares processors."""

_SETTINGS = (("float32", "float32", 1), ("float32", "float32", 16), ("int8", "8-bit", 1), ("int8", "8-bit", 16))


def blocks(results: Path) -> dict[str, str]:
    """What README shows between its markers."""
    inference = overview_records(results)
    if not inference:
        return {"picture": MISSING, "figures": MISSING}
    shown = f"![Bytes on disk, milliseconds per image and error: 32 bits against 1]({PICTURE.as_posix()})"
    return {"picture": shown, "figures": figures(inference, lenet5_errors(results), cifar10_facts(results))}


def overview_records(results: Path) -> dict[Path, JsonObject]:
    """The records that README can show, the newest first: those that hold :data:`NETWORK`."""
    return {path: record for path, record in read_records(results).items() if NETWORK in record["networks"]}


def lenet5_errors(results: Path) -> dict[int, tuple[float, str]]:
    """The best error of the full LeNet5 experiment by bits: the mean over seeds, and its text."""
    found = {}
    for (name, bits, _), runs in full_results(read_training_records(results)).items():
        if name == "lenet5-mnist":
            found[bits] = runs.mean("best_error"), runs.text("best_error")
    return found


def cifar10_facts(results: Path) -> list[str]:
    """A sentence about each shipped network for CIFAR-10 whose training is recorded."""
    records, facts = read_training_records(results), []
    if vgg := _shipped(records, "vgg_fast-cifar10"):
        facts.append(
            f"{recipe_title(vgg.recipe)}, trained from scratch on one core, {vgg.recipe.epochs} epochs, "
            f"{_last_error(vgg)}. The package includes this network."
        )
    resnet20 = "resnet20_fast-cifar10"
    tuned, before = _shipped(records, resnet20), full_results(records).get((resnet20, 32, None))
    if tuned and before:
        facts.append(
            f"{recipe_title(tuned.recipe)}, trained on one core, {before.recipe.epochs} epochs with 32 bits and "
            f"{tuned.recipe.epochs} with 1 bit, {_last_error(tuned)}, {before.text('last_error')} % with 32 bits. "
            "The package includes this network."
        )
    return facts


def _shipped(records: Sequence[Record], name: str) -> Repeated | None:
    """The shipped network of a recipe, with the other seeds of its run."""
    best = best_record(records, name)
    return None if best is None else by_recipe(records)[dataclasses.replace(best.recipe, seed=0)]


def _last_error(runs: Repeated) -> str:
    millions = runs.records[0].network["binary_weights"] / 1e6
    return f"last error: {runs.text('last_error')} % with {millions:#.2g} million 1-bit weights"


def picture(inference: JsonObject, errors: dict[int, tuple[float, str]]) -> list[Panel]:
    """Bytes, milliseconds and error: 32 bits against 1."""
    network, title = inference["networks"][NETWORK], network_title(NETWORK)
    sizes = ((network["float_bytes"], "32 bits", False), (packed_bytes(network), "1 bit", True))
    bars = [Bar(label=label, value=size, text=f"{size / 1e6:.1f}", binary=binary) for size, label, binary in sizes]
    panels = [Panel(title=f"{title}: MB on disk", bars=bars)]
    found = {engine: (seconds, name) for engine, name, seconds in engine_times(network, "float32", 1, 1)}
    peers = sorted((found[engine] for engine in found if engine != "signwise"), reverse=True)
    bars = [
        Bar(label=f"32 bits, {name}", value=seconds, text=f"{1000 * seconds:.2f}", binary=False)
        for seconds, name in peers
    ]
    ours = found["signwise"][0]
    bars.append(Bar(label="1 bit, signwise", value=ours, text=f"{1000 * ours:.2f}", binary=True))
    panels.append(Panel(title=f"{title}: ms per image, one thread", bars=bars))
    if errors:
        bars = [
            Bar(label=f"{bits} bit{'s' if bits > 1 else ''}", value=value, text=text, binary=bits == 1)
            for bits, (value, text) in sorted(errors.items(), reverse=True)
        ]
        panels.append(Panel(title="LeNet5 on MNIST: error, %", bars=bars))
    return panels


def figures(
    inference: Mapping[Path, JsonObject], errors: dict[int, tuple[float, str]], more_facts: Sequence[str] = ()
) -> str:
    """README's numbers: a table of ratios, where they come from, and single facts.

    The newest record shows all networks; older records, of other processors, show :data:`NETWORK`.
    """
    newest, *others = inference.values()
    networks = newest["networks"]
    rows = [_row(inference_records.title(name), network) for name, network in networks.items() if name != "dense4096"]
    for record in (newest, *others):
        where = "" if record is newest else f", {_processor(record)}"
        if record is not newest:
            rows.append(_row(f"{network_title(NETWORK)}{where}", record["networks"][NETWORK]))
        hidden = record.get("avx2", {}).get("networks", {})
        if NETWORK in hidden:
            rows.append(_row(f"{network_title(NETWORK)}{where}, AVX2 only", hidden[NETWORK]))
    headings = ("", "file", *(f"{kind}, batch {batch}" for _, kind, batch in _SETTINGS))
    table = Table(headings=headings, rows=tuple(rows), words=1).markdown()
    facts = [*_error_fact(errors), *more_facts, *_dense_fact(networks), *_memory_fact(networks)]
    return "\n\n".join([table, _origin(inference), "\n".join(f"- {fact}" for fact in facts)])


def _row(title: str, network: JsonObject) -> tuple[str, ...]:
    cells = [f"{network['float_bytes'] / packed_bytes(network):.0f} ×"]
    for precision, _, batch in _SETTINGS:
        times = against_fastest_peer(network, precision, batch)
        cells.append(ABSENT if times is None else _ratio(times.ratio))
    return (title, *cells)


def _ratio(value: float) -> str:
    # Near 1 one decimal would hide which side is faster.
    return f"{value:.2f} ×" if 0.95 <= value < 1.05 else f"{value:.1f} ×"


def _processor(record: JsonObject) -> str:
    name: str = record["hardware"]["processor"]
    return name.replace("(R)", "").replace(" Processor", "")


def _origin(records: Mapping[Path, JsonObject]) -> str:
    newest, *others = (f"{_processor(record)}, {record['date'][:10]}" for record in records.values())
    rest = "".join(f"; named rows: {other}" for other in others)
    return (
        "How many times smaller the packed file is than with float32 weights, and how many times faster it runs on "
        "one thread than the fastest of PyTorch, ONNX Runtime, OpenVINO and MNN with the same activations; below 1 it "
        f"is slower. {newest}{rest}. [All times and versions](docs/speed.md)."
    )


def _error_fact(errors: dict[int, tuple[float, str]]) -> list[str]:
    if 1 not in errors:
        return []
    full = f", {errors[32][1]} % with 32 bits" if 32 in errors else ""
    return [f"LeNet5 on MNIST, 200 epochs, best error: {errors[1][1]} % with 1 bit{full}."]


def _dense_fact(networks: JsonObject) -> list[str]:
    if "dense4096" not in networks:
        return []
    found = {engine: 1000 * seconds for engine, _, seconds in engine_times(networks["dense4096"], "float32", 1, 1)}
    if not {"pytorch", "signwise"} <= found.keys():
        return []
    before, after = found["pytorch"], found["signwise"]
    ratio = f"{before / after:.0f} × faster"
    return [f"Dense layer, 4096 × 4096, one row: {before:.2f} ms in PyTorch, {after:.3f} ms packed, {ratio}."]


def _memory_fact(networks: JsonObject) -> list[str]:
    rows = networks.get(NETWORK, {"rows": []})["rows"]
    found = {row["engine"]: row["memory_bytes"] / 1e6 for row in rows if row["precision"] == "float32"}
    if not {"onnxruntime", "signwise"} <= found.keys():
        return []
    before, after = found["onnxruntime"], found["signwise"]
    what = f"Peak memory of {network_title(NETWORK)} at batch 1, above Python with numpy"
    return [f"{what}: {before:.0f} MB in ONNX Runtime, {after:.0f} MB packed, {before / after:.0f} × less."]
