"""What ``docs/results.md`` shows between its markers."""

from __future__ import annotations

import json
from pathlib import Path

from signwise.reproduce.ablation import ablation_markdown
from signwise.reproduce.experiments import GPU, experiments, gpu_cost
from signwise.reproduce.method_tables import alpha_markdown, methods_markdown, resnet_markdown, zeta_markdown
from signwise.reproduce.records import read_training_records
from signwise.reproduce.render import FIGURES, texts
from signwise.reproduce.tables import Table, name_title
from signwise.training.evaluate import network_cost

RENDERED = "results/rendered"
"""Where ``signwise reproduce`` writes this repository's tables and figures."""

_NOT_SHOWN = ("alpha", "gpu")  # the first has no rows until a GPU trains them, the second is a sentence
_DESCRIPTIONS = {
    "state": "Six panels that show how the weights of one layer become binary",
    "accuracy": "Test accuracy over the whole training and over its last epochs",
    "methods": "One row per method: its error in both settings, with the spread over the seeds",
    "methods-resnet20": "One row per method: its error after an epoch from a float network, and the published error",
    "bits": "Errors with 32 bits and with 1 bit, the paper's hollow and ours filled",
}


def blocks(results: Path) -> dict[str, str]:
    """The tables, sentences and figures, by the names of their markers."""
    records = read_training_records(results)
    shown = {name: text for name, text in texts(records).items() if name not in _NOT_SHOWN}
    images = {name: _image(name, results) for name in FIGURES}
    methods = {
        "methods": methods_markdown(results),
        "methods-figure": _image("methods", results),
        "t-alpha": alpha_markdown(results),
        "zeta": zeta_markdown(results),
        "methods-resnet20": resnet_markdown(results),
        "methods-resnet20-figure": _image("methods-resnet20", results),
    }
    more = {"ablation": ablation_markdown(results), "gpu-hours": gpu_hours(), "training-speed": training_speed(results)}
    return shown | images | methods | more


def _image(name: str, results: Path) -> str:
    """The line that shows a figure, if there is one."""
    path = results / "rendered" / f"{name}.png"
    return f"![{_DESCRIPTIONS[name]}](../{RENDERED}/{name}.png)" if path.exists() else "_Not measured._"


def training_speed(results: Path) -> str:
    """Images per second of training on a CPU by setting, from ``benchmarks/training.py``."""
    path = results / "training.json"
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if "speeds" not in record:
        return "_Not recorded yet._"
    cells = []
    for case in record["speeds"]:
        first = case["rows"][0]["images_per_second"]
        for row in case["rows"]:
            rate = row["images_per_second"]
            cells.append((name_title(case["recipe"]), row["setting"], f"{rate:,.0f}", f"{rate / first:.2f} ×"))
    table = Table(headings=("Training, 1 bit", "Setting", "Images per second", "Gain"), rows=tuple(cells), words=2)
    return (
        f"{table.markdown()}\n\nWhole epochs with their tests, CPU time, {record['threads']} thread. Measured "
        f"{record['date'][:10]} on an {record['hardware']['processor']} by `benchmarks/training.py`: "
        "[the record](../results/training.json)."
    )


def gpu_hours() -> str:
    """The predicted cost of table 1 on one GPU, with its arithmetic."""
    full = experiments("table1", "full")
    hours = sum(gpu_cost(recipe, network_cost(recipe).macs).hours for recipe in full)
    return (
        f"By arithmetic, table 1 would take about {hours:.0f} hours on one {GPU.name} "
        f"([per run](../{RENDERED}/gpu.md)): hours = steps · max(6 · MACs per image · images per step / (peak · "
        f"utilization), floor) / 3600, with a peak of {GPU.peak / 1e12:,.0f} · 10¹² operations per second "
        f"({GPU.precision}, dense; {GPU.source}), an assumed utilization of {GPU.utilization:g} ({GPU.reason}) and an "
        f"assumed floor of {1000 * GPU.floor:g} ms to launch a step's kernels."
    )
