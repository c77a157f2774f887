"""The table of recipes."""

from __future__ import annotations

import json

import pytest

from signwise.cli import main
from signwise.training import RECIPES


def test_the_table_has_a_line_for_every_recipe_and_bit_width(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert " ".join(heading.split()) == "recipe bits parameters binary MACs epochs batch lr wd T_alpha"
    assert [line.split()[:2] for line in lines] == [[name, bits] for name in RECIPES for bits in ("1", "32")]
    assert " ".join(lines[0].split()) == "lenet5-mnist 1 431,650 425,500 2.3 M 200 100 0.01 0.001 0.9"
    assert len({len(line) for line in (heading, *lines)}) == 1


def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert len(records) == 2 * len(RECIPES)
    assert records[0]["binary_weights"] == 425_500 and records[1]["binary_weights"] == 0
