"""The page on language models shows every method, text and size of its records."""

from __future__ import annotations

from pathlib import Path

from tools import language_models

ORIGIN = {"date": "2026-01-02T03:04:05Z", "hardware": {"processor": "A CPU"}}


def run(method: str, seed: int, loss: float) -> dict[str, object]:
    settings = {"method": method, "seed": seed, "lr": 0.002, "steps": 10, "batch": 2, "context": 8}
    curve = [{"step": 5, "validation": loss + 1}, {"step": 10, "validation": loss}]
    return {"settings": settings, "bits_per_byte": {"test": loss}, "weights": 1000, "gguf_bytes": 2000, "curve": curve}


def test_a_method_has_the_mean_and_deviation_of_its_seeds() -> None:
    runs = [run("float", 0, 2.0), run("float", 1, 2.2), run("mean_sign", 0, 3.0)]
    text = language_models.losses({**ORIGIN, "trials": {"steps": 4}, "runs": runs})
    assert "| float | 2.100 ± 0.141 | 0.002 | 2,000 |" in text
    assert "| 1 bit, MeanSign | 3.000 |" in text and "saw 160 bytes" in text


def test_the_ratio_of_speeds_is_the_inverse_of_the_times() -> None:
    row = {
        "model": "trained", "binary_weights": 3e6, "threads": 1, "tokens": 9,
        "seconds": {"signwise": [0.001], "llama_cpp": [0.002]},
        "median_seconds": {"signwise": 0.001, "llama_cpp": 0.002},
    }  # fmt: skip
    assert "binary weights | 1,000 | 500 | 2.0 |" in language_models.speed({**ORIGIN, "speed": [row]})


def test_large_models_are_counted_from_the_measured_steps() -> None:
    steps = [
        {"method": method, "weights": weights, "seconds": seconds, "bytes": 20 * weights}
        for method, seconds in (("float", 1.0), ("group_transform", 1.25))
        for weights in (10**6, 2 * 10**6)
    ]
    model = {
        "name": "1 billion", "weights": 10**9, "binary_weights": 896 * 10**6, "matrix_weights_beside": 96 * 10**6,
        "block_weights": 10**8,
    }  # fmt: skip
    text = language_models.large({**ORIGIN, "tokens": 100, "steps": steps, "large": [model]})
    assert "| 1 billion (1.00) | 4.0 | 4.0 | 8.0 | 16 | 2.8 | 1.1 | 0.23 |" in text
    assert "1.25 to 1.25 times as long" in text and "grows by 20 bytes" in text


def test_without_records_the_page_says_so(tmp_path: Path) -> None:
    assert set(language_models.blocks(tmp_path, "none").values()) == {"none"}
