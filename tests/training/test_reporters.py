"""What each reporter does with the events of a run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from signwise.training import get_recipe
from signwise.training.loop import EpochRecord, Event, Reading, Saved, Started
from signwise.training.reporters import (
    LEGEND,
    SCALARS,
    JsonLinesReporter,
    MetricsReporter,
    PlainReporter,
    Reporter,
    TerminalReporter,
    scalars_of,
    terminal_or_plain,
)
from signwise.training.run_folder import RunFolder, read_records

STARTED = Started(
    recipe=get_recipe("lenet5-mnist"),
    folder=Path("runs/x"),
    step=0,
    total_steps=50,
    best_error=None,
    seconds=0.0,
)
RECORD = EpochRecord(
    epoch=3,
    step=30,
    train_loss=0.1234,
    train_error=3.0,
    error=1.5,
    loss=0.2,
    relaxed_error=1.25,
    relaxed_loss=0.1,
    alpha=0.5,
    zeta=1.0,
    flipped_signs=0.02,
    relative_step=0.001,
    degenerate_groups=0,
    learning_rate=0.01,
    weight_decay=0.001,
    images_per_second=1234.5,
    seconds=5550.0,
)
READING = Reading(
    epoch=4, step=30, total_steps=50, loss=0.2, alpha=0.6, zeta=1.0, images_per_second=99.0, seconds_left=75.0
)


def report(reporter: Reporter, *events: Event) -> None:
    for event in events:
        reporter.report(event)


def test_an_epoch_is_one_plain_line_with_errors_schedule_speed_and_time_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report(PlainReporter(), STARTED, RECORD)
    assert capsys.readouterr().out == (
        "lenet5-mnist, 1 bit: 50 steps into runs/x\n"
        f"{LEGEND}\n"
        "epoch 3/200  loss 0.1234  error 1.50 % (relaxed 1.25 %) best  α 0.500  ζ 1.00  1,234 images/s  "
        "1 h 1 min left\n"
    )


def test_full_precision_shows_no_relaxed_error_and_no_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    record = dataclasses.replace(RECORD, relaxed_error=None, alpha=None, zeta=None, seconds=7.5)
    reporter = PlainReporter()
    report(reporter, dataclasses.replace(STARTED, recipe=get_recipe("lenet5-mnist", 32), best_error=1.0), record)
    line = capsys.readouterr().out.splitlines()[1]
    assert line == "epoch 3/200  loss 0.1234  error 1.50 %  1,234 images/s  5 s left"


def test_only_an_error_below_all_before_it_is_marked_best(capsys: pytest.CaptureFixture[str]) -> None:
    errors = (1.5, 1.5, 1.4, 1.6)
    report(PlainReporter(), STARTED, *(dataclasses.replace(RECORD, error=error) for error in errors))
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [" best" in line for line in lines] == [True, False, True, False]


def test_a_resumed_run_says_where_and_shows_its_notes(capsys: pytest.CaptureFixture[str]) -> None:
    report(PlainReporter(), dataclasses.replace(STARTED, step=20, notes=("x is damaged",)))
    assert capsys.readouterr().out == f"x is damaged\nresuming runs/x after step 20 of 50\n{LEGEND}\n"


def test_a_reading_is_a_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    report(PlainReporter(), STARTED, READING)
    assert capsys.readouterr().out.splitlines()[2] == (
        "epoch 4/200  step 30/50  loss 0.2000  α 0.600  ζ 1.00  99 images/s  1 min 15 s left"
    )
    assert PlainReporter.reading_seconds == 60


def test_a_terminal_shows_a_bar_with_the_last_errors() -> None:
    reporter = TerminalReporter()
    report(reporter, STARTED, RECORD, READING)
    task = reporter.bar.tasks[0]
    reporter.close()
    assert (task.completed, task.total, task.description) == (30, 50, "epoch 4/200")
    assert task.fields["reading"] == (
        "loss 0.2000  error 1.50 % (relaxed 1.25 %)  α 0.600  ζ 1.00  99 images/s  1 min 15 s left"
    )


def test_the_bar_is_gone_when_the_run_ends() -> None:
    reporter = TerminalReporter()
    assert reporter.bar.live.transient


def test_logged_numbers_are_grouped_and_a_reading_has_those_it_knows() -> None:
    assert scalars_of(RECORD)["test/error"] == 1.5 and scalars_of(RECORD)["train/loss"] == 0.1234
    assert set(SCALARS) == set(RECORD.to_json()) - {"epoch", "step"}
    assert scalars_of(READING) == {
        "train/loss": 0.2,
        "schedule/alpha": 0.6,
        "schedule/zeta": 1.0,
        "speed/images_per_second": 99.0,
    }


def test_a_pipe_gets_plain_lines() -> None:
    assert type(terminal_or_plain()) is PlainReporter


def test_a_parent_process_gets_one_json_object_per_event(capsys: pytest.CaptureFixture[str]) -> None:
    report(JsonLinesReporter(), STARTED, READING, RECORD, Saved(step=30, epochs=3))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(line) for line in lines] == [["started"], ["reading"], ["epoch"], ["saved"]]
    assert lines[0]["started"]["total_steps"] == 50 and lines[1]["reading"]["seconds_left"] == 75
    assert lines[2]["epoch"] == RECORD.to_json() and lines[3]["saved"] == {"step": 30, "epochs": 3}


def test_metrics_are_one_line_per_epoch(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, resume=False)
    report(MetricsReporter(folder), STARTED, READING, RECORD, Saved(step=30, epochs=3))
    folder.close()
    assert read_records(tmp_path / "metrics.jsonl") == [RECORD.to_json()]


def test_signs_that_rest_in_the_first_half_of_a_run_are_pointed_out_once(capsys: pytest.CaptureFixture[str]) -> None:
    started = dataclasses.replace(STARTED, total_steps=10 * RECORD.step)
    resting = dataclasses.replace(RECORD, flipped_signs=1e-6)
    report(PlainReporter(), started, RECORD, resting, resting)
    report(PlainReporter(), started, dataclasses.replace(resting, step=9 * RECORD.step))
    assert capsys.readouterr().out.count("of the signs flipped in this epoch") == 1
