"""The gallery's figures are read from what the examples print, and its table has a row per recorded example."""

from __future__ import annotations

from pathlib import Path

import pytest

from signwise.provenance import write_record
from tools import gallery


def test_the_result_is_the_line_before_the_sizes() -> None:
    printed = (
        "step 40/40: loss 0.5\ntest error 2.00 %\nout/net.sw: 21,968 bytes; with float32 weights 375,984\nthe end\n"
    )
    assert gallery.figures(printed) == {"result": "test error 2.00 %", "bytes": 21_968, "float32_bytes": 375_984}
    with pytest.raises(ValueError, match="no line with sizes"):
        gallery.figures("test error 2.00 %\n")


def test_examples_without_a_record_have_no_row(tmp_path: Path) -> None:
    assert gallery.blocks(tmp_path, "none yet") == {"gallery": "none yet"}
    found = {"seconds": 61.0, "result": "test error 2.00 %", "bytes": 1000, "float32_bytes": 20_000}
    write_record(tmp_path / gallery.RECORD, {"examples": {"unet": found}})
    table = gallery.blocks(tmp_path, "none yet")["gallery"]
    assert "| U-Net | test error 2.00 % | 1,000 | 20,000 | 1 min 1 s |" in table
    assert "GPT" not in table
