"""The tables and figures of the comparison: every row from records, in the order of the error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signwise import methods
from signwise.errors import FormatError
from signwise.reproduce.experiments import PUBLISHED_RESNET20, run_name
from signwise.reproduce.method_comparison import (
    ALPHA,
    AUTHORS,
    COMMON,
    RESNET,
    RESNET_ZETA,
    entries,
    record_path,
    resnet_entries,
)
from signwise.reproduce.method_tables import (
    alpha_table,
    methods_markdown,
    methods_table,
    ranking,
    render_methods,
    resnet_ranking,
    resnet_table,
    zeta_table,
)


def write(folder: Path, seed: int, errors: dict[tuple[str, str], float]) -> None:
    runs: list[dict[str, Any]] = [
        {
            "name": run_name(entry.recipe.changed(seed=seed)),
            "start": None if entry.start is None else run_name(entry.start),
            "settings": {"optimizer": entry.recipe.optimizer},
            "best_error": errors[entry.group, entry.label] - 0.5,
            "last_error": errors[entry.group, entry.label],
            "start_error": 1.0,
            "relative_steps": [1e-3, None],
            "origin": {
                "date": f"2026-01-0{1 + seed}T00:00:00Z",
                "processor": f"processor {seed}",
                "torch": "2",
                "revision": None,
            },
        }
        for entry in (*entries(), *resnet_entries())
        if (entry.group, entry.label) in errors
    ]
    record_path(folder, seed).write_text(json.dumps({"runs": runs}))


def test_a_run_that_is_in_two_tables_is_in_both(tmp_path: Path) -> None:
    write(tmp_path, 0, {(RESNET, "group_transform_mean"): 20.0, (ALPHA, "0"): 5.0, (RESNET_ZETA, "1"): 19.0})
    assert alpha_table(tmp_path).rows == (("0", "5.00", "1", "19.00", "1"), ("0.5", "–", "0", "20.00", "1"))
    assert zeta_table(tmp_path).rows == (("1", "19.00", "1"),)


def test_the_table_of_resnet20_has_published_errors_beside_ours(tmp_path: Path) -> None:
    write(tmp_path, 0, {(RESNET, "lab"): 20.0, (RESNET, "bwn"): 15.0})
    assert resnet_table(tmp_path).rows == (
        ("BWN", "15.00", "1.00", "1", "10.1 (100, MetaQuant)"),
        ("LAB", "20.00", "1.00", "1", "–"),
    )
    assert [list(row.errors.values()) for row in resnet_ranking(tmp_path)] == [[[15.0], [10.1]], [[20.0], []]]
    assert str(PUBLISHED_RESNET20["parq"]) == "9.52 ± 0.26 (200, PARQ)"
    assert PUBLISHED_RESNET20.keys() <= methods.METHODS.keys()


def test_the_note_names_the_processors_and_days_of_the_runs_in_its_table_alone(tmp_path: Path) -> None:
    for seed, errors in enumerate([{(COMMON, "bwn"): 3.0}, {(AUTHORS, "bwn"): 3.0}, {(ALPHA, "0"): 4.0}]):
        write(tmp_path, seed, errors)
    assert "processor 0, processor 1, PyTorch 2, 2026-01-01 to 2026-01-02, revision –." in methods_markdown(tmp_path)


def test_the_table_ranks_by_the_common_error_and_shows_mean_and_spread(tmp_path: Path) -> None:
    write(tmp_path, 0, {(COMMON, "bwn"): 3.0, (COMMON, "lab"): 2.0, (AUTHORS, "ir_net"): 1.0, (ALPHA, "0.5"): 4.0})
    write(tmp_path, 1, {(COMMON, "bwn"): 5.0, (AUTHORS, "ir_net"): 1.0})
    rows = methods_table(tmp_path).rows
    assert [row[0] for row in rows] == ["IR-Net", "LAB", "BWN"]
    assert rows[2] == ("BWN", "4.00 ± 1.41", "3.50 ± 1.41", "–", "–", "–", "2", "0")
    assert rows[0][3:] == ("1.00 ± 0.00", "0.50 ± 0.00", "1.0e-03", "0", "2")
    assert alpha_table(tmp_path).rows == (("0.5", "4.00", "1", "–", "0"),)
    assert [list(row.errors.values()) for row in ranking(tmp_path)][2] == [[3.0, 5.0], []]


def test_tables_and_figure_are_written_once(tmp_path: Path) -> None:
    assert render_methods(tmp_path, tmp_path / "out") == []
    write(tmp_path, 0, {(COMMON, "bwn"): 3.0, (ALPHA, "0"): 4.0})
    names = {path.name for path in render_methods(tmp_path, tmp_path / "out")}
    assert names == {"methods.md", "methods.csv", "t-alpha.md", "t-alpha.csv", "methods.png"}
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    render_methods(tmp_path, tmp_path / "out")
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}


def test_a_missing_record_is_a_note_and_a_damaged_one_an_error(tmp_path: Path) -> None:
    assert methods_markdown(tmp_path) == "_Not measured yet._"
    record_path(tmp_path, 0).write_text('{"runs": [{}]}')
    with pytest.raises(FormatError, match="not a record of the methods"):
        methods_markdown(tmp_path)
