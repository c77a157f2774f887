"""The blocks of ``docs/language-models.md``: losses, a text, speed beside llama.cpp, and what large models need."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from signwise.figures import PALETTE, styled, subplots
from signwise.reproduce.tables import Table
from tools.inference_records import JsonObject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE = Path("results/rendered/language-models.png")
NAMES = {
    "float": "float",
    "group_transform": "1 bit, the paper's transform, learned scales",
    "group_transform_mean": "1 bit, the paper's transform, mean scales",
    "mean_sign": "1 bit, MeanSign",
    "ternary": "ternary",
}
# Bytes per weight that a training keeps: float32 latents and gradients, and the two moments of Adam.
LATENT, GRADIENT, MOMENTS = 4, 4, 8
SHARDS = (8, 64)


def blocks(recorded: Path, missing: str) -> dict[str, str]:
    """The page's blocks by name, from the records in a folder; ``missing`` where there is none."""
    made = {
        "loss": ("language-model.json", losses),
        "text": ("language-model-text.json", text),
        "speed": ("language-model-text.json", speed),
        "large": ("language-model-memory.json", large),
    }
    found = {}
    for name, (file, render) in made.items():
        path = recorded / file
        found[name] = render(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else missing
    return found


def losses(record: JsonObject) -> str:
    """One row per method: the mean over seeds on the test part, and the bytes of the file."""
    rows = []
    for method, runs in _by_method(record).items():
        tested = [run["bits_per_byte"]["test"] for run in runs]
        size = runs[0].get("gguf_bytes")
        rows.append(
            (
                NAMES[method],
                f"{statistics.mean(tested):.3f} ± {statistics.stdev(tested):.3f}"
                if len(tested) > 1
                else f"{tested[0]:.3f}",
                f"{runs[0]['settings']['lr']:g}",
                "" if size is None else f"{size:,}",
            )
        )
    first = record["runs"][0]
    settings, seeds = first["settings"], sorted({run["settings"]["seed"] for run in record["runs"]})
    seen = settings["steps"] * settings["batch"] * settings["context"]
    headings = ("weights", "bits per byte", "learning rate", "GGUF bytes")
    return "\n\n".join(
        (
            Table(headings=headings, rows=tuple(rows), words=1).markdown(),
            f"![Validation loss by step](../{PICTURE})",
            f"Mean and standard deviation over {len(seeds)} seeds of the loss on the test part, for the deployed "
            "weights. "
            f"{first['weights']:,} weights, {settings['steps']} steps of {settings['batch']} windows of "
            f"{settings['context']} bytes, so each model saw {seen:,} bytes: the comparison is of short trainings. "
            f"Learning rates by trials of {record['trials']['steps']} steps, on the validation part. "
            f"Trained {record['date'][:10]} on an {record['hardware']['processor']} by "
            "`benchmarks/language_model_loss.py`: [the record](../results/language-model.json).",
        )
    )


@styled
def loss_figure(record: JsonObject) -> Figure:
    """The mean over seeds of the validation loss of the deployed weights, by step."""
    figure, axes = subplots(1, 1, width=7, height=3.4)
    place = axes[0, 0]
    styles = ("-", "--", ":", "-.")
    for number, (method, runs) in enumerate(_by_method(record).items()):
        steps = [entry["step"] for entry in runs[0]["curve"]]
        values = [statistics.mean(run["curve"][index]["validation"] for run in runs) for index in range(len(steps))]
        place.plot(steps, values, styles[number % 4], color=PALETTE[number], label=NAMES[method])
    place.set_title("Bits per byte on the validation part")
    place.set_xlabel("step")
    place.legend()
    return figure


def text(record: JsonObject) -> str:
    """The transcript, and how far llama.cpp agrees."""
    spoken, agreed = record["transcript"], record["agreement"]
    lines = [f"> *{name}*: {spoken['prompt']}**{_one_line(spoken[name])}**" for name in ("greedy", "drawn")]
    return "\n\n".join(
        (
            "\n>\n".join(lines),
            f"*Greedy* takes the likeliest byte, *drawn* one at temperature {spoken['temperature']:g}, seed "
            f"{spoken['seed']}. The model, one of the table above with "
            f"{record['trained']['bits_per_byte']['test']:.3f} bits per "
            "byte, has learned to spell most short words and the tone; there is no sense in its sentences.",
            f"The stock llama.cpp ({record['llama_cpp']}) continues {agreed['same_continuations']} of "
            f"{agreed['prompts']} prompts from the test part with the same {agreed['tokens']} tokens as our "
            "runtime. Over "
            f"{agreed['compared_distributions']:,} next tokens, the largest difference of a probability is "
            f"{agreed['mean_largest_difference']:.4f} on average and {agreed['largest_difference']:.4f} at most: "
            "llama.cpp "
            "rounds activations to 8 bits. By `benchmarks/language_model_text.py`: "
            "[the record](../results/language-model-text.json).",
        )
    )


def speed(record: JsonObject) -> str:
    """Tokens per second of both runtimes, which took turns."""
    rows = []
    single = [row for row in record["speed"] if row["threads"] == 1]
    for row in single:
        ours, theirs = (row["median_seconds"][runtime] for runtime in ("signwise", "llama_cpp"))
        model = f"{row['model']}, {row['binary_weights'] / 1e6:.0f} million binary weights"
        rows.append((model, f"{1 / ours:,.0f}", f"{1 / theirs:,.0f}", f"{theirs / ours:.1f}"))
    headings = ("model", "signwise, tokens/s", "llama.cpp, tokens/s", "ratio")
    return (
        Table(headings=headings, rows=tuple(rows), words=1).markdown()
        + f"\n\nOne text at a time, one thread, {single[0]['tokens']} tokens after the prompt, medians of "
        f"{len(single[0]['seconds']['signwise'])} turns, the two runtimes alternating. Ours includes Python; "
        "llama.cpp's is its own count, without the time of node. The record has two threads, too, but says nothing of "
        "llama.cpp there: its threads wait actively for each other and stall where both cores have other work. "
        f"Measured {record['date'][:10]} on an {record['hardware']['processor']} by "
        "`benchmarks/language_model_text.py`: [the record](../results/language-model-text.json)."
    )


def large(record: JsonObject) -> str:
    """Memory and time of 1 and 7 billion weights, by arithmetic from measured steps."""
    measured = {
        method: [row for row in record["steps"] if row["method"] == method] for method in ("float", "group_transform")
    }
    rate = max(6 * row["weights"] * record["tokens"] / row["seconds"] for row in measured["group_transform"])
    slopes = {method: _slope(rows) for method, rows in measured.items()}
    kept = LATENT + GRADIENT + MOMENTS
    rows = []
    for model in record["large"]:
        weights, block = model["weights"], model["block_weights"]
        sharded = [kept * weights / count + 2 * LATENT * block for count in SHARDS]
        file = model["binary_weights"] * 18 / 128 + model["matrix_weights_beside"] * 34 / 32
        rows.append(
            (
                f"{model['name']} ({weights / 1e9:.2f})",
                *(f"{size * weights / 1e9:.1f}" for size in (LATENT, GRADIENT, MOMENTS)),
                f"{kept * weights / 1e9:.0f}",
                *(f"{size / 1e9:.1f}" for size in sharded),
                f"{file / 1e9:.2f}",
                f"{rate / (6 * weights):.2g}",
                f"{1e14 / (6 * weights):,.0f}",
            )
        )
    shards = tuple(f"per process of {count}" for count in SHARDS)
    headings = (
        "weights, 10⁹",
        "latents",
        "gradients",
        "moments",
        "together",
        *shards,
        "GGUF",
        "tokens/s here",
        "at 10¹⁴/s",
    )
    sizes = ", ".join(f"{row['weights'] / 1e6:.0f}" for row in measured["group_transform"])
    return (
        Table(headings=headings, rows=tuple(rows), words=1).markdown()
        + f"\n\nMemory in GB (10⁹ bytes). Latents and gradients take {LATENT} bytes per weight each and Adam's moments "
        f"{MOMENTS}. A process of FSDP2 keeps its share of all three and, of the block that it computes, the "
        "gathered latents "
        "and their relaxed weights. Activations come on top. A GGUF file has 18 bytes per 128 binary weights and "
        "34 per 32 "
        "others. A token costs 6 operations per weight, so tokens/s = operations/s / (6 × weights): *here* is one "
        "core at "
        f"the {rate / 1e9:.0f} × 10⁹ operations/s of the measured steps, the last column a machine that reaches 10¹⁴. "
        f"Measured at {sizes} million weights with {record['tokens']} tokens per step, in bfloat16: a step with the "
        f"transform takes {_ratio(measured)} times as long as a float step, and memory grows by "
        f"{slopes['group_transform']:.0f} "
        f"bytes per weight (float: {slopes['float']:.0f}), which includes relaxed weights, 16-bit copies and what "
        "the allocator "
        f"keeps. {record['date'][:10]}, {record['hardware']['processor']}, by `benchmarks/language_model_memory.py`: "
        "[the record](../results/language-model-memory.json)."
    )


def _by_method(record: JsonObject) -> dict[str, list[JsonObject]]:
    found: dict[str, list[JsonObject]] = {}
    for run in record["runs"]:
        found.setdefault(run["settings"]["method"], []).append(run)
    return found


def _one_line(words: str) -> str:
    return words.replace("\n", " / ").strip()


def _slope(rows: list[JsonObject]) -> float:
    """Bytes per weight, from the smallest size to the largest."""
    first, last = rows[0], rows[-1]
    slope: float = (last["bytes"] - first["bytes"]) / (last["weights"] - first["weights"])
    return slope


def _ratio(measured: dict[str, list[JsonObject]]) -> str:
    pairs = zip(measured["group_transform"], measured["float"], strict=True)
    ratios = sorted(binary["seconds"] / real["seconds"] for binary, real in pairs)
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
