"""The loss of float, 1-bit and ternary language models of one size after the same training, over seeds.

    python -m benchmarks.language_model_loss --runs build/language-models

Trains with ``examples/language_model/train.py``. First come short trials, which choose the learning rate of each
method, and the scale of the paper's, by the loss on the validation part; then a run per method and seed. Runs that
are done stay; one that was interrupted resumes. Everything enters ``results/language-model.json``.
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
METHODS = (("float",), ("group_transform", "group_transform_mean"), ("mean_sign",), ("ternary",))  # with variants
RATES = (2e-3, 4e-3)
TRIAL_SEED = 100  # none of the runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="folder for checkpoints and models")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--trial-steps", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "language-model.json")
    options = parser.parse_args()
    trials: list[dict[str, Any]] = []
    for method in (variant for variants in METHODS for variant in variants):
        for rate in RATES:
            record = trained(options.runs / f"trial-{method}-{rate:g}", method, rate, TRIAL_SEED, options.trial_steps)
            trials.append({"method": method, "lr": rate, "validation": record["bits_per_byte"]["validation"]})
    runs = []
    for seed in range(options.seeds):
        for variants in METHODS:
            best = min(
                (trial for trial in trials if trial["method"] in variants), key=lambda trial: trial["validation"]
            )
            folder = options.runs / f"{best['method']}-{seed}"
            runs.append(trained(folder, best["method"], best["lr"], seed, options.steps))
    write_record(options.out, {"trials": {"steps": options.trial_steps, "runs": trials}, "runs": runs})


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
