"""What ``docs/results.md`` shows between its markers."""

from __future__ import annotations

from pathlib import Path

from signwise.reproduce.ablation import ablation_markdown
from signwise.reproduce.experiments import GPU, experiments, gpu_cost
from signwise.reproduce.method_comparison import alpha_markdown, methods_markdown
from signwise.reproduce.records import read_training_records
from signwise.reproduce.render import FIGURES, texts
from signwise.training.evaluate import network_cost

RENDERED = "results/rendered"
"""Where ``signwise reproduce`` writes this repository's tables and figures."""

_NOT_SHOWN = ("alpha", "gpu")  # the first has no rows until a GPU trains them, the second is a sentence
_DESCRIPTIONS = {
    "state": "Six panels that show how the weights of one layer become binary",
    "accuracy": "Test accuracy over the whole training and over its last epochs",
    "methods": "One row per method: its error in both settings, with the spread over the seeds",
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
    }
    return shown | images | methods | {"ablation": ablation_markdown(results), "gpu-hours": gpu_hours()}


def _image(name: str, results: Path) -> str:
    """The line that shows a figure, if there is one."""
    path = results / "rendered" / f"{name}.png"
    return f"![{_DESCRIPTIONS[name]}](../{RENDERED}/{name}.png)" if path.exists() else "_Not measured._"


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
