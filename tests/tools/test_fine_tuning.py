"""The table of fine-tuning shows every training of the record."""

from __future__ import annotations

import json
from pathlib import Path

from tools.fine_tuning import blocks

ORIGIN = {"date": "2026-01-02T03:04:05Z", "hardware": {"processor": "A CPU"}}


def test_every_training_has_a_row_and_the_origin_is_named(tmp_path: Path) -> None:
    runs = [{"epochs": 1, "distill": False, "error": 2.5}, {"epochs": 2, "distill": True, "error": 1.25}]
    network = ORIGIN | {"recipe": "lenet5-mnist", "float_error": 0.75, "runs": runs}
    (tmp_path / "fine-tuning.json").write_text(json.dumps({"networks": [network]}))
    text = blocks(tmp_path, "none")["epochs"]
    assert "| lenet5-mnist | labels | 1 | 2.50 % | 0.75 % |" in text
    assert "| lenet5-mnist | labels and teacher | 2 | 1.25 % | 0.75 % |" in text
    assert "2026-01-02, A CPU" in text


def test_without_a_record_the_page_says_so(tmp_path: Path) -> None:
    assert blocks(tmp_path, "none") == {"epochs": "none"}
