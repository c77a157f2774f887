"""One HTML page that compares runs: results, sizes, speed, curves and the state of layers.

The page holds its pictures and needs no network: it can be mailed, archived and read on a phone. Only the measurement
of size and speed needs PyTorch; without it the page says so.
"""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from signwise import provenance
from signwise.errors import SignwiseError
from signwise.figures import svg_text
from signwise.figures.bars import Panel, bars_figure, number_panel
from signwise.figures.layer_state import layer_state_figure
from signwise.figures.lines import LinePanel, lines_figure, percent
from signwise.invocation import install
from signwise.runtime import native
from signwise.text import counted, duration
from signwise.training.recipe import Recipe
from signwise.training.records import read_config, read_records, schedule_corners

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from signwise.bench.runs import PackedRun

# A run's packed file, or the reason why there is none.
Measured = Union["PackedRun", str]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
img { width: 100%; min-width: 34rem; height: auto; }
.wide { overflow-x: auto; }
.pair { display: flex; flex-wrap: wrap; gap: 0.5rem 2rem; }
.pair img { flex: 1 1 18rem; min-width: 0; max-width: 32rem; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { text-align: right; padding: 0.3rem 0.5rem; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
footer, .note { color: #555; font-size: 0.9rem; }
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunRecord:
    """A run as its folder records it.

    Args:
        name: the run in tables and legends.
        recipe: what it trains.
        config: its ``config.json``.
        epochs: its ``metrics.jsonl``, one row per epoch.
        states: its ``state.jsonl``, one row per epoch and watched layer.
    """

    name: str
    recipe: Recipe
    config: dict[str, Any]
    epochs: list[dict[str, Any]]
    states: list[dict[str, Any]]

    def column(self, name: str) -> list[float | None]:
        """One number per epoch; ``None`` where it was not recorded."""
        return [row.get(name) for row in self.epochs]


def read_runs(folders: Sequence[Path]) -> list[RunRecord]:
    """Read the records of runs, finished or not.

    Raises:
        SignwiseError: a folder holds no run, or its run has not finished an epoch.
    """
    runs: list[RunRecord] = []
    for folder in folders:
        config = read_config(folder)
        epochs = read_records(folder / "metrics.jsonl")
        if not epochs:
            raise SignwiseError(f"the run in {folder} has not finished an epoch yet")
        name = folder.resolve().name
        if any(other.name == name for other in runs):
            name = str(folder)
        states = read_records(folder / "state.jsonl")
        recipe = Recipe.from_json(config["recipe"])
        runs.append(RunRecord(name=name, recipe=recipe, config=config, epochs=epochs, states=states))
    return runs


def measure(folder: Path) -> Measured:
    """Pack the network of a run and time it, as :func:`signwise.bench.runs.measure_run` does.

    Returns:
        The measurements, or a sentence that says why there are none.
    """
    try:
        from signwise.bench.runs import measure_run

        return measure_run(folder)
    except SignwiseError as error:
        return str(error)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return f"packing a run needs torch: {install('torch')}"


def report_page(runs: Sequence[RunRecord], measured: Sequence[Measured] = ()) -> str:
    """The page as HTML.

    Args:
        runs: one or more runs, in the order in which the page shows them.
        measured: the packed file of each run; empty to leave out their size and speed.
    """
    packed = dict(zip((run.name for run in runs), measured, strict=bool(measured)))
    parts = [
        "<h1>" + html.escape("Runs: " + ", ".join(run.name for run in runs) if len(runs) < 4 else f"{len(runs)} runs"),
        "</h1>",
        '<p class="note">error: test error of the deployed weights, ±1 with 1 bit; relaxed: of the weights as '
        "they train. The two meet when α reaches 1.</p>",
        _section("Results", _table(_results(runs, packed))),
    ]
    if packed:
        parts.append(_section("Size and speed of the packed network", _size_and_speed(runs, packed)))
    if len(runs) > 1:
        parts.append(_section("Settings that differ", _table(_differences(runs))))
    parts += [
        _section("Errors and losses", _picture(lines_figure(error_panels(runs)), "Errors and losses over the epochs")),
        _section("Weights", _weights(runs)),
        _section(
            "Schedule and training speed",
            _picture(lines_figure(progress_panels(runs)), "Schedule and training speed over the epochs"),
        ),
    ]
    for run in runs:
        layers = list(dict.fromkeys(state["layer"] for state in run.states))
        for layer in layers:
            states = [state for state in run.states if state["layer"] == layer]
            if len(states) > 1:
                title = f"{run.name}, layer {layer}"
                figure = layer_state_figure(states, schedules=schedule_corners(run.config))
                parts.append(_section(f"State of {title}", _picture(figure, f"Histograms of the weights of {title}")))
    footer = f"<footer>signwise {provenance.versions()['signwise']}, {provenance.now()}</footer>"
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>signwise: {html.escape(', '.join(run.name for run in runs))}</title><style>{_STYLE}</style></head>"
    )
    return f"{head}<body>{''.join(parts)}{footer}</body></html>\n"


def error_panels(runs: Sequence[RunRecord]) -> list[LinePanel]:
    """Errors and losses of runs over the epochs."""
    titles = {
        "error": "test error, %",
        "relaxed_error": "test error of the relaxed weights, %",
        "train_loss": "training loss",
        "train_error": "training error, %",
    }
    return [_panel(runs, name, title) for name, title in titles.items()]


def progress_panels(runs: Sequence[RunRecord]) -> list[LinePanel]:
    """Schedules, degenerate groups and speed of runs over the epochs."""
    titles = {
        "learning_rate": "learning rate",
        "weight_decay": "weight decay",
        "alpha": "α at the end of the epoch",
        "zeta": "ζ at the end of the epoch",
        "degenerate_groups": "groups with fewer than two weights of one sign",
        "images_per_second": "images per second of training",
    }
    return [
        _panel(runs, name, title, logarithmic=name in ("learning_rate", "weight_decay"))
        for name, title in titles.items()
    ]


def weight_panels(runs: Sequence[RunRecord]) -> list[LinePanel]:
    """How far the latents of runs move: signs that flip, and the relative step."""
    flips = {run.name: percent(run.column("flipped_signs")) for run in runs}
    steps = {run.name: run.column("relative_step") for run in runs}
    return [
        LinePanel(title="signs flipped per epoch, %", lines=flips, logarithmic=True),
        LinePanel(title="relative step  η‖∇φ‖ / ‖φ‖", lines=steps, logarithmic=True),
    ]


def _panel(runs: Sequence[RunRecord], name: str, title: str, *, logarithmic: bool | None = None) -> LinePanel:
    if logarithmic is None:
        logarithmic = name not in ("alpha", "zeta", "degenerate_groups", "images_per_second")
    return LinePanel(title=title, lines={run.name: run.column(name) for run in runs}, logarithmic=logarithmic)


def _weights(runs: Sequence[RunRecord]) -> str:
    panels = weight_panels(runs)
    if not any(panel.points() for panel in panels):
        return "<p>No run has binary weights, or none recorded how far they move.</p>"
    return _picture(lines_figure(panels), "Flipped signs and relative step over the epochs")


def _size_and_speed(runs: Sequence[RunRecord], packed: Mapping[str, Measured]) -> str:
    """Bars of bytes and time, where and when they were measured, and which runs are missing."""
    found = [(run, file) for run in runs if not isinstance(file := packed[run.name], str)]
    parts = []
    if found:
        # A picture for each: next to each other on a screen, below each other on a phone.
        pictures = [_image(bars_figure([panel], width=5), panel.title) for panel in _size_and_speed_panels(found)]
        parts.append(f'<div class="pair">{"".join(pictures)}</div>')
        machine = f"{provenance.processor()}, {counted(os.cpu_count() or 1, 'core')}, {provenance.now()[:10]}"
        if any(file.seconds is not None for _, file in found):
            time = f"Time of one image on one thread with {native.isa()} kernels, the fastest within a second."
        else:
            time = "The time was not measured, for there is no native library: see signwise doctor."
        parts.append(_note(f"The file that signwise compile writes from the best weights. {time} {machine}."))
    parts += [_note(f"{name} was not measured: {file}.") for name, file in packed.items() if isinstance(file, str)]
    return "".join(parts)


def _size_and_speed_panels(found: Sequence[tuple[RunRecord, PackedRun]]) -> list[Panel]:
    binary = [run.recipe.bits == 1 for run, _ in found]
    labels = [f"{run.name}, {run.recipe.bits} bit" for run, _ in found]
    quantities = [("KB, packed file", [file.size / 1e3 for _, file in found], 0)]
    times = [file.seconds for _, file in found if file.seconds is not None]
    if times:
        unit, factor, decimals = ("µs", 1e6, 0) if max(times) < 0.001 else ("ms", 1e3, 2)
        quantities.append((f"{unit} per image, one thread", [factor * seconds for seconds in times], decimals))
    return [
        number_panel(title, values, binary=binary, decimals=decimals, labels=labels)
        for title, values, decimals in quantities
    ]


def _results(runs: Sequence[RunRecord], packed: Mapping[str, Measured]) -> list[list[str]]:
    rows = [
        [
            "run",
            "bits",
            "epochs",
            "error",
            "best error",
            "relaxed",
            "parameters",
            "float32",
            "packed",
            "training time",
        ]
    ]
    for run in runs:
        last = run.epochs[-1]
        best = min(run.epochs, key=lambda row: float(row["error"]))
        network = run.config["network"]
        parameters, binary = network["parameters"], network["binary_weights"]
        relaxed = last.get("relaxed_error")
        file = packed.get(run.name, "not measured")
        if isinstance(file, str):
            # One bit per binary weight, four bytes for everything else; the file itself adds its header.
            size, float32_bytes = binary / 8 + 4 * (parameters - binary), 4 * parameters
        else:
            size, float32_bytes = file.size, file.float32_bytes
        rows.append(
            [
                run.name,
                str(run.recipe.bits),
                f"{last['epoch']} of {run.recipe.epochs}",
                f"{last['error']:.2f} %",
                f"{best['error']:.2f} % at {best['epoch']}",
                "" if relaxed is None else f"{relaxed:.2f} %",
                f"{parameters:,}",
                f"{float32_bytes / 1e3:,.0f} KB",
                f"{size / 1e3:,.0f} KB",
                duration(last["seconds"]),
            ]
        )
    return rows


def _differences(runs: Sequence[RunRecord]) -> list[list[str]]:
    settings = [run.recipe.to_json() for run in runs]
    names = [name for name in settings[0] if len({str(each.get(name)) for each in settings}) > 1]
    rows = [["setting", *(run.name for run in runs)]]
    return rows + [[name, *(_setting(each.get(name)) for each in settings)] for name in names]


def _setting(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_setting, value))
    return f"{value:.4g}" if isinstance(value, float) else "–" if value is None else str(value)


def _table(rows: list[list[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _note(text: str) -> str:
    return f'<p class="note">{html.escape(text)}</p>'


def _section(title: str, content: str) -> str:
    return f"<h2>{html.escape(title)}</h2>{content}"


def _picture(figure: Figure, text: str) -> str:
    return f'<div class="wide">{_image(figure, text)}</div>'


def _image(figure: Figure, text: str) -> str:
    # As an image and not inline: matplotlib gives elements of several figures the same ids.
    data = base64.b64encode(svg_text(figure).encode()).decode()
    return f'<img alt="{html.escape(text)}" src="data:image/svg+xml;base64,{data}">'
