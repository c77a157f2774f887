"""The loss of float, 1-bit and ternary language models of one size after the same training, over seeds.

    python -m benchmarks.language_model_loss --runs build/language-models

Trains with ``examples/language_model/train.py``. First come short trials per method, which choose its learning rate by
the loss on the validation part; then a run per method and seed. Runs that are done stay; one that was interrupted
resumes. Everything enters ``results/language-model.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from signwise.provenance import write_record

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "language_model" / "train.py"
METHODS = ("float", "group_transform", "group_transform_mean", "mean_sign", "ternary")
RATES = (1e-3, 2e-3, 4e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="folder for checkpoints and models")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--trial-steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "language-model.json")
    options = parser.parse_args()
    trials = []
    for method in METHODS:
        for rate in RATES:
            folder = options.runs / f"trial-{method}-{rate:g}"
            record = trained(folder, method, rate, seed=100, steps=options.trial_steps)
            trials.append({"method": method, "lr": rate, "validation": record["bits_per_byte"]["validation"]})
    runs = []
    for seed in range(options.seeds):
        for method in METHODS:
            rate = best_rate(trials, method)
            runs.append(trained(options.runs / f"{method}-{seed}", method, rate, seed, options.steps))
    write_record(options.out, {"trials": {"steps": options.trial_steps, "runs": trials}, "runs": runs})


def best_rate(trials: list[dict[str, Any]], method: str) -> float:
    rates = {entry["validation"]: float(entry["lr"]) for entry in trials if entry["method"] == method}
    return rates[min(rates)]


def trained(folder: Path, method: str, rate: float, seed: int, steps: int) -> dict[str, Any]:
    record = folder / "record.json"
    if not record.exists():
        settings = {"out": folder, "method": method, "lr": rate, "seed": seed, "steps": steps}
        flags = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
        subprocess.run([sys.executable, str(EXAMPLE), *flags, "--bfloat16"], check=True)
    found: dict[str, Any] = json.loads(record.read_text())
    return found


if __name__ == "__main__":
    main()
