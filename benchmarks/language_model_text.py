"""Text by a trained 1-bit language model, with our runtime beside the stock llama.cpp: the same text, and how fast.

    python -m benchmarks.language_model_text --run RUN --large FOLDER

RUN is a folder of ``examples/language_model/train.py``. Both runtimes continue the same prompts, from the part of the
text that training did not see, and give their scores for them. Then they take turns in continuing one prompt: with the
trained model, and with a larger one of random weights, which FOLDER keeps for the next time. Needs ``NODE_LLAMA_CPP``,
which ``make test-llama`` explains. Everything enters ``results/language-model-text.json``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tools.llama_cpp import LlamaCpp, version

import signwise as sw
from signwise.provenance import write_record

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "language_model" / "train.py"
PROMPT = "And God said unto "
PROMPTS, LENGTH, COUNT = 20, 48, 50  # prompts, bytes of each, and tokens that continue it
LARGE = sw.models.LlamaConfig(
    hidden_size=1024, intermediate_size=3072, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=8
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="folder of a trained model")
    parser.add_argument("--large", type=Path, required=True, help="folder for the files of the larger model")
    parser.add_argument("--tokens", type=int, default=100, help="per timing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "language-model-text.json")
    options = parser.parse_args()
    if not (options.large / "model.sw").exists():
        make_large(options.large)
    trained = json.loads((options.run / "record.json").read_text())
    result = {
        "llama_cpp": f"node-llama-cpp {version()}",
        "trained": {
            key: trained[key] for key in ("settings", "bits_per_byte", "weights", "binary_weights", "revision")
        },
        "transcript": transcript(options.run / "model.sw", trained["settings"]["context"]),
        "agreement": agreement(options.run),
        "speed": [
            timed(name, folder, threads, options.tokens, options.rounds)
            for name, folder in (("trained", options.run), ("large", options.large))
            for threads in (1, 2)
        ],
    }
    write_record(options.out, result)


def make_large(folder: Path) -> None:
    torch.manual_seed(0)
    model = sw.models.llama(LARGE)
    sw.binarize_(model, method=sw.GroupTransform(scale="mean", block=128))
    folder.mkdir(parents=True, exist_ok=True)
    sw.export.gguf(model.eval(), folder / "model.gguf")
    sw.compile_decoder(model).save(folder / "model.sw")


def transcript(path: Path, context: int) -> dict[str, Any]:
    """A likeliest and a drawn continuation, as long as the windows of the training."""
    generator = sw.Generator(path)
    draws = {"greedy": 0.0, "drawn": 0.7}
    texts = {
        name: generator.generate(PROMPT.encode(), context - len(PROMPT), temperature=value)
        for name, value in draws.items()
    }
    found = {name: bytes(text).decode(errors="replace") for name, text in texts.items()}
    return {"prompt": PROMPT, "temperature": draws["drawn"], "seed": 0, **found}


def agreement(run: Path) -> dict[str, Any]:
    """How many continuations are the same, and how far the probabilities of the next token are apart."""
    specification = importlib.util.spec_from_file_location("example", EXAMPLE)
    assert specification is not None and specification.loader is not None
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    held_out = example.split(example.read_corpus([]))[2]
    prompts = [bytes(window.tolist()) for window in example.windows(held_out, PROMPTS, LENGTH - 1)]
    generator = sw.Generator(run / "model.sw")
    same, differences = 0, []
    with LlamaCpp(run / "model.gguf") as llama_cpp:
        for prompt in prompts:
            same += llama_cpp.continued(prompt.decode(), COUNT).made == list(generator.generate(prompt, COUNT))
            ours = np.stack(list(generator.scores(prompt)))
            differences.append(np.abs(_shares(llama_cpp.scores(prompt)) - _shares(ours)).max(1))
    apart = np.concatenate(differences)  # the largest difference of each next token
    return {
        "prompts": len(prompts),
        "tokens": COUNT,
        "same_continuations": same,
        "compared_distributions": len(apart),
        "mean_largest_difference": float(apart.mean()),
        "largest_difference": float(apart.max()),
    }


def _shares(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    powers = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    shares: npt.NDArray[np.float64] = powers / powers.sum(1, keepdims=True)
    return shares


def timed(name: str, folder: Path, threads: int, tokens: int, rounds: int) -> dict[str, Any]:
    """Seconds per token after the prompt, by turns: ours with Python, llama.cpp's by its own count, without node."""
    generator = sw.Generator(folder / "model.sw", threads)
    seconds: dict[str, list[float]] = {"signwise": [], "llama_cpp": []}
    with LlamaCpp(folder / "model.gguf", threads) as llama_cpp:
        for turn in range(rounds + 1):
            made = generator.generate(PROMPT.encode(), tokens)
            next(made)
            begin = time.perf_counter()
            steps = sum(1 for _ in made)
            ours = (time.perf_counter() - begin) / steps
            found = llama_cpp.continued(PROMPT, tokens)
            if turn > 0:  # the first one warms up
                seconds["signwise"].append(ours)
                seconds["llama_cpp"].append(found.seconds / found.steps)
    binary = sum(
        operation.out_features * operation.in_features
        for operation in generator.program.ops
        if isinstance(operation, sw.program.operations.Dense) and operation.bits == 1
    )
    return {
        "model": name,
        "binary_weights": binary,
        "threads": threads,
        "context": generator.context,
        "tokens": tokens,
        "seconds": seconds,
        "median_seconds": {runtime: statistics.median(times) for runtime, times in seconds.items()},
    }


if __name__ == "__main__":
    main()
