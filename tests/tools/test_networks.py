"""The parts of docs/compile.md: every operator of the compiler is listed, and records become rows."""

from __future__ import annotations

import json
from pathlib import Path

from tools.networks import FAMILIES, differential, names, networks, operators

from signwise.compiler.translate import DECOMPOSED, SHAPE_ALONE, TRANSLATIONS


def test_every_operator_that_the_compiler_translates_is_in_the_table() -> None:
    listed = [operator for family in FAMILIES.values() for operator in family]
    assert sorted(set(listed)) == sorted({*TRANSLATIONS, *DECOMPOSED, *SHAPE_ALONE})
    assert not DECOMPOSED & TRANSLATIONS.keys(), "what PyTorch takes apart never reaches a translation"
    table = operators()
    for name in ("conv_transpose2d", "scaled_dot_product_attention", "batch_norm", "index", "signwise.packed_linear"):
        assert f"`{name}`" in table
    assert names(["aten._softmax.default", "aten.softmax.int"]) == ["softmax"]


def test_records_become_rows(tmp_path: Path) -> None:
    assert networks(tmp_path) == differential(tmp_path) == "_Not recorded yet._"
    origin = {"date": "2026-01-02T03:04:05Z", "hardware": {"processor": "a CPU"}}
    times = [
        {"engine": "signwise", "precision": "float32", "ours": True, "seconds": 1e-4},
        {"engine": "Slow", "precision": "float32", "ours": False, "seconds": 9e-4},
        {"engine": "Quick", "precision": "float32", "ours": False, "seconds": 2e-4},
        {"engine": "Broken", "precision": "float32", "ours": False, "failure": "no"},
    ]
    row = {
        "name": "Net", "reads": "image", "first_loss": 2.3, "last_loss": 1.25, "state_bytes": 4000, "file_bytes": 500,
        "difference": 3e-7, "int8_difference": 0.0123, "loss": {"float32": 1.0, "int8": 1.1},
        "accuracy": {"float32": 0.5, "int8": 0.49}, "times": times,
    }  # fmt: skip
    (tmp_path / "networks.json").write_text(json.dumps(origin | {"steps": 9, "tested": 1000, "networks": [row]}))
    shown = networks(tmp_path)
    assert "| Net | 2.30 → 1.25 | 4,000 | 500 | 8.0 | 3e-07 | 1.23 % | 50.0 %, 49.0 % | 100, Quick 200 | – |" in shown
    counts = {"programs": 7, "operations": 30, "kinds": 31, "numbers": 9000, "at_an_edge": 2, "largest_error": 1e-7}
    (tmp_path / "differential.json").write_text(json.dumps(origin | {"sets": {"avx2": counts}}))
    assert "| avx2 | 7 | 30 of 31 kinds | 9,000 | 1e-07 | 2 |" in differential(tmp_path)
