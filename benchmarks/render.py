"""README's picture and numbers, and what is measured on the pages on kernels and packing, from ``results/``.

    python benchmarks/render.py            # make render does this, and renders docs/results.md

Nothing is measured here. What is not recorded yet is said to be missing; rendering again changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signwise.bench.records import read_records
from signwise.figures.comparison import Bar, Panel, draw
from signwise.figures.style import save
from signwise.reproduce.markers import fill_file
from signwise.reproduce.paper_tables import full_results
from signwise.reproduce.record import read_all
from signwise.reproduce.table import Table

ROOT = Path(__file__).parents[1]
MISSING = "_Not recorded yet._"
PICTURE = Path("results/rendered/overview.png")
NETWORK, TITLE = "resnet18", "ResNet-18"
SETTINGS = (("float32", "float32", 1), ("float32", "float32", 16), ("int8", "8-bit", 1), ("int8", "8-bit", 16))
NAMES = {"lenet5": "LeNet5", "vgg_small": "VGG-Small", "resnet18": "ResNet-18", "wrn28_10": "WRN-28-10"}


@dataclass(frozen=True, kw_only=True)
class Duel:
    """The packed network beside the fastest other engine at one setting; times in seconds.

    Args:
        ours, theirs: best times.
        engine: the title of the other engine.
    """

    ours: float
    theirs: float
    engine: str


def times(network: dict[str, Any], precision: str, batch: int, threads: int) -> Iterator[tuple[str, str, float]]:
    """Name, title and best time of every engine at one setting."""
    for row in network["rows"]:
        if row["precision"] == precision and row["engine"] != "numpy":
            for entry in row["times"]:
                if (entry["batch"], entry["threads"]) == (batch, threads):
                    yield row["engine"], row["title"], entry["best"]


def duel(network: dict[str, Any], precision: str, batch: int, threads: int = 1) -> Duel | None:
    """The fastest other engine against ours, where both were measured."""
    found = list(times(network, precision, batch, threads))
    ours = [seconds for engine, _, seconds in found if engine == "signwise"]
    others = [(seconds, title) for engine, title, seconds in found if engine != "signwise"]
    if not ours or not others:
        return None
    theirs, engine = min(others)
    return Duel(ours=ours[0], theirs=theirs, engine=engine)


def packed_bytes(network: dict[str, Any]) -> int:
    """Bytes of the packed file with float32 activations."""
    rows = [row for row in network["rows"] if (row["engine"], row["precision"]) == ("signwise", "float32")]
    return int(rows[0]["file_bytes"])


def errors(results: Path) -> dict[int, tuple[float, str]]:
    """The best error of LeNet5 on MNIST in full, by bits: the mean over seeds, and its text."""
    found = {}
    for (name, bits, _), runs in full_results(read_all(results)).items():
        if name == "lenet5-mnist":
            found[bits] = runs.mean("best_error"), runs.text("best_error")
    return found


def picture(inference: dict[str, Any], found_errors: dict[int, tuple[float, str]]) -> list[Panel]:
    """Bytes, milliseconds and error: 32 bits against 1."""
    network = inference["networks"][NETWORK]
    panels = []
    sizes = ((network["state_dict_bytes"], "32 bits", False), (packed_bytes(network), "1 bit", True))
    bars = [Bar(label=label, value=size, text=f"{size / 1e6:.1f}", binary=binary) for size, label, binary in sizes]
    panels.append(Panel(title=f"{TITLE}: MB on disk", bars=bars))
    found = {engine: (seconds, title) for engine, title, seconds in times(network, "float32", 1, 1)}
    shown = sorted((found[engine] for engine in found if engine != "signwise"), reverse=True)
    bars = [
        Bar(label=f"32 bits, {title}", value=seconds, text=f"{1000 * seconds:.2f}", binary=False)
        for seconds, title in shown
    ]
    ours = found["signwise"][0]
    bars.append(Bar(label="1 bit, signwise", value=ours, text=f"{1000 * ours:.2f}", binary=True))
    panels.append(Panel(title=f"{TITLE}: ms an image, one thread", bars=bars))
    if found_errors:
        bars = [
            Bar(label=f"{bits} bit{'s' if bits > 1 else ''}", value=value, text=text, binary=bits == 1)
            for bits, (value, text) in sorted(found_errors.items(), reverse=True)
        ]
        panels.append(Panel(title="LeNet5 on MNIST: error, %", bars=bars))
    return panels


def figures(inference: Mapping[Path, dict[str, Any]], found_errors: dict[int, tuple[float, str]]) -> str:
    """The numbers of README: a table of all networks, then single facts, then where they come from.

    The newest record tells of all networks, older ones of other processors tell of ResNet-18.
    """
    newest, *others = inference.values()
    networks = newest["networks"]
    rows = [_row(title, networks[name]) for name, title in NAMES.items() if name in networks]
    for record in (newest, *others):
        hidden = record.get("avx2", {}).get("networks", {})
        where = "" if record is newest else f", {record['hardware']['processor']}"
        if record is not newest:
            rows.append(_row(f"{TITLE}{where}", record["networks"][NETWORK]))
        if NETWORK in hidden:
            rows.append(_row(f"{TITLE}{where}, AVX2 only", hidden[NETWORK]))
    headings = ("32 bits → 1 bit", "MB on disk", *(f"ms, {kind}, batch {batch}" for _, kind, batch in SETTINGS))
    table = Table(headings=headings, rows=tuple(rows), words=1)
    facts = [*_errors(found_errors), *_dense(networks), *_memory(networks)]
    return "\n\n".join([table.markdown(), "\n".join(f"- {fact}" for fact in facts), _origin(inference)])


def _row(title: str, network: dict[str, Any]) -> tuple[str, ...]:
    before, after = network["state_dict_bytes"], packed_bytes(network)
    cells = [f"{before / 1e6:.2f} → {after / 1e6:.2f}: {before / after:.1f} ×"]
    for precision, _, batch in SETTINGS:
        fight = duel(network, precision, batch)
        cells.append("–" if fight is None else _versus(fight))
    return (title, *cells)


def _versus(fight: Duel) -> str:
    before, after = 1000 * fight.theirs, 1000 * fight.ours
    digits = 3 if after < 1 else 2 if after < 10 else 1
    return f"{before:.{digits}f} ({fight.engine}) → {after:.{digits}f}: {before / after:.2f} ×"


def _errors(found: dict[int, tuple[float, str]]) -> list[str]:
    if 1 not in found:
        return []
    full = f", with 32 bits {found[32][1]} %" if 32 in found else ""
    return [f"LeNet5 on MNIST, 200 epochs, best error: with 1 bit {found[1][1]} %{full}."]


def _dense(networks: dict[str, Any]) -> list[str]:
    if "dense4096" not in networks:
        return []
    found = {engine: 1000 * seconds for engine, _, seconds in times(networks["dense4096"], "float32", 1, 1)}
    if not {"pytorch", "signwise"} <= found.keys():
        return []
    before, after = found["pytorch"], found["signwise"]
    return [f"Dense 4096 × 4096, one row: {before:.2f} ms in PyTorch, {after:.3f} ms packed: {before / after:.1f} ×."]


def _memory(networks: dict[str, Any]) -> list[str]:
    if NETWORK not in networks:
        return []
    rows = networks[NETWORK]["rows"]
    found = {row["engine"]: row["memory_bytes"] / 1e6 for row in rows if row["precision"] == "float32"}
    if not {"onnxruntime", "signwise"} <= found.keys():
        return []
    before, after = found["onnxruntime"], found["signwise"]
    return [
        f"Peak memory of {TITLE} at batch 1, above that of Python with numpy: {before:.1f} MB in ONNX Runtime, "
        f"{after:.1f} MB packed: {before / after:.1f} ×."
    ]


def _origin(records: Mapping[Path, dict[str, Any]]) -> str:
    newest = next(iter(records.values()))
    versions = ", ".join(f"{name} {version}" for name, version in newest["versions"].items() if name != "signwise")
    measured, *others = (
        f"{record['date'][:10]} on an {record['hardware']['processor']} ([the record]({path.as_posix()}))"
        for path, record in records.items()
    )
    older = f" Rows that name another processor: {', '.join(others)}, with the kernels of that day." if others else ""
    return (
        "Left of each arrow stands the fastest of PyTorch, ONNX Runtime, OpenVINO and MNN with float32 or 8-bit "
        "weights, right of it the packed file; below 1 × it is slower. One thread, best of many runs, all engines in "
        "turn. "
        f"Measured {measured} with {versions}.{older}"
    )


def read(path: Path) -> dict[str, Any] | None:
    """A record, or nothing where it has not been made."""
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def kernels_page(results: Path) -> dict[str, str]:
    """What stands between the markers of the page on kernels."""
    record = read(results / "kernels.json")
    return {"kernels": MISSING if record is None else kernel_table(record)}


def kernel_table(record: dict[str, Any]) -> str:
    """How close each binary layer of ResNet-18 comes to the limit, one table for each instruction set."""
    parts = []
    for isa in dict.fromkeys(row["isa"] for row in record["layers"]):
        found: dict[str, dict[str, Any]] = {}
        for row in record["layers"]:
            if row["isa"] == isa:
                found.setdefault(_layer(row), {})[row["activations"]] = row
        rows = tuple((layer, *_float_cells(kinds["float32"]), *_rate(kinds["int8"])) for layer, kinds in found.items())
        phases = "prepare / build / sums / finish, %"
        headings = ("layer", "µs", "G/s", "of the limit", phases, "8-bit G/s", "of its limit")
        gigahertz = sorted(row["clock_gigahertz"] for row in record["layers"] if row["isa"] == isa)
        limit = next(row["vectors_a_cycle"] for row in record["layers"] if row["isa"] == isa)
        vectors = "one vector" if limit == 1 else "two vectors"
        parts.append(f"**{isa}**, at {gigahertz[0]:.1f} to {gigahertz[-1]:.1f} GHz, at most {vectors} a cycle:")
        parts.append(Table(headings=headings, rows=rows, words=1).markdown())
    parts.append(
        "The binary layers of ResNet-18, one image, one thread. G/s are 10⁹ additions a second, as many as the "
        "multiply-adds of the same layer in float32. *Prepare* copies the input into padded planes, *build* fills the "
        "tables, *sums* looks them up, *finish* is the epilogue. "
        f"Measured {record['date'][:10]} on an {record['hardware']['processor']} by `benchmarks/kernels.py`: "
        "[the record](../results/kernels.json)."
    )
    return "\n\n".join(parts)


def _layer(row: dict[str, Any]) -> str:
    stride = f", stride {row['stride']}" if row["stride"] > 1 else ""
    return f"{row['count']} × {row['channels']} → {row['filters']}, {row['size']}x{row['size']}{stride}"


def _float_cells(row: dict[str, Any]) -> tuple[str, ...]:
    shares = " / ".join(f"{100 * row['shares'][name]:.0f}" for name in ("prepare", "build", "sums", "finish"))
    return (f"{1e6 * row['seconds']:.0f}", *_rate(row), shares)


def _rate(row: dict[str, Any]) -> tuple[str, str]:
    return f"{row['giga_additions_a_second']:.0f}", f"{100 * row['share_of_limit']:.0f} %"


def activations_page(results: Path) -> dict[str, str]:
    """What stands between the markers of the page on packing."""
    record = read(results / "activations.json")
    return {"activations": MISSING if record is None else activations_table(record)}


def activations_table(record: dict[str, Any]) -> str:
    """The errors of trained networks by how their activations are kept."""
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


def overview_records(results: Path) -> dict[Path, dict[str, Any]]:
    """The records that README can show, the newest first: those of the network that it compares processors by."""
    return {path: record for path, record in read_records(results).items() if NETWORK in record["networks"]}


def readme(results: Path) -> dict[str, str]:
    """What stands between README's markers."""
    inference = overview_records(results)
    if not inference:
        return {"picture": MISSING, "figures": MISSING}
    shown = f"![Bytes on disk, milliseconds an image and error: 32 bits against 1]({PICTURE.as_posix()})"
    return {"picture": shown, "figures": figures(inference, errors(results))}


def main() -> None:
    results = ROOT / "results"
    inference = overview_records(results)
    if inference:
        newest = next(iter(inference.values()))
        save(draw(picture(newest, errors(results)), width=11.0), ROOT / PICTURE)
    for path, blocks in (
        (ROOT / "README.md", readme(results)),
        (ROOT / "docs/kernels.md", kernels_page(results)),
        (ROOT / "docs/pack-and-ship.md", activations_page(results)),
    ):
        print(f"{path.relative_to(ROOT)} {'rendered' if fill_file(path, blocks) else 'is up to date'}")


if __name__ == "__main__":
    main()
