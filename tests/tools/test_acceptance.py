"""The table of models from other packages: one row per model, with float losses where training fails for both."""

from __future__ import annotations

import json
from pathlib import Path

from tools import acceptance


def test_each_model_of_the_record_is_one_row(tmp_path: Path) -> None:
    fine = {"weights": 200, "binary": 150, "SGDW": [2.0, 0.5], "AdamW": [2.0, 2.5]}
    fine |= {"AdamW, slower": [2.0, 1.5], "AdamW, float": [2.0, 2.1]}
    fine |= {"packed_difference": 2e-7, "compile": "refused: no silu", "failures": {}}
    broken = {"failures": {"binarize_": "SignwiseError: a | b"}}
    record = {"date": "2026-01-02T00:00:00Z", "versions": {"torch": "2.13"}, "models": {"a": fine, "b": broken}}
    (tmp_path / "acceptance.json").write_text(json.dumps(record))
    block = acceptance.blocks(tmp_path)["models"]
    assert block.startswith("2 models, 1 without a failure.")
    assert "| a | 75 % | 2 → 0.5 | 2 → 2.5 (slower 2 → 1.5, float 2 → 2.1) | 2e-07 | refused | none |" in block
    assert "| b | – | – | – | – | – | binarize_: SignwiseError: a / b |" in block
    assert "- a: no silu" in block


def test_rounding_is_shown_where_packing_changes_more_than_the_last_digits(tmp_path: Path) -> None:
    entry = {"weights": 2, "binary": 1, "packed_difference": 2e-3, "rounding": 4e-3, "compile": "ok", "failures": {}}
    record = {"date": "2026-01-02T00:00:00Z", "versions": {}, "models": {"a": entry}}
    (tmp_path / "acceptance.json").write_text(json.dumps(record))
    block = acceptance.blocks(tmp_path)["models"]
    assert "| 2e-03 (rounding 4e-03) | ok |" in block and "refuses" not in block


def test_without_a_record_the_page_says_so(tmp_path: Path) -> None:
    assert acceptance.blocks(tmp_path)["models"] == "_Not recorded yet._"
