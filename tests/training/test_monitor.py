"""What a run shows, and to whom."""

from __future__ import annotations

import pytest
from signwise.training.monitor import Live, Plain, Reading, Silent, monitor_for

from signwise.training import recipe

ROW = {
    "epoch": 3,
    "train_loss": 0.1234,
    "error": 1.5,
    "relaxed_error": 1.25,
    "alpha": 0.5,
    "zeta": 1.0,
    "images_per_second": 1234.5,
}
READING = Reading(
    epoch=4, step=30, total_steps=50, loss=0.2, alpha=0.6, zeta=1.0, images_per_second=99.0, seconds_left=75.0
)


def test_an_epoch_is_one_plain_line_with_all_that_matters(capsys: pytest.CaptureFixture[str]) -> None:
    Plain(recipe("lenet5-mnist")).epoch(ROW, is_best=True, seconds_left=3700)
    assert capsys.readouterr().out == (
        "epoch 3/200  loss 0.1234  error 1.50 % (relaxed 1.25 %) best  α 0.500  ζ 1.00  1,234 images/s  "
        "1 h 1 min left\n"
    )


def test_full_precision_shows_no_relaxed_error_and_no_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    row = ROW | {"relaxed_error": None, "alpha": None, "zeta": None}
    Plain(recipe("lenet5-mnist", 32)).epoch(row, is_best=False, seconds_left=5)
    assert capsys.readouterr().out == "epoch 3/200  loss 0.1234  error 1.50 %  1,234 images/s  5 s left\n"


def test_a_long_epoch_shows_where_it_stands_but_not_at_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    monitor = Plain(recipe("lenet5-mnist"))
    assert not monitor.due()
    monitor.show(READING)
    assert capsys.readouterr().out == (
        "epoch 4/200  step 30/50  loss 0.2000  α 0.600  ζ 1.00  99 images/s  1 min 15 s left\n"
    )


def test_a_terminal_gets_a_bar_with_the_last_errors_beside_it() -> None:
    monitor = Live(recipe("lenet5-mnist"))
    monitor.epoch(ROW, is_best=True, seconds_left=5)
    monitor.show(READING)
    task = monitor._progress.tasks[0]
    monitor.close()
    assert (task.completed, task.total, task.description) == (30, 50, "epoch 4/200")
    assert task.fields["reading"] == (
        "loss 0.2000  error 1.50 % (relaxed 1.25 %)  α 0.600  ζ 1.00  99 images/s  1 min 15 s left"
    )


def test_a_pipe_gets_plain_lines_and_the_other_processes_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert type(monitor_for(recipe("lenet5-mnist"), is_main=True)) is Plain
    quiet = monitor_for(recipe("lenet5-mnist"), is_main=False)
    assert isinstance(quiet, Silent) and not quiet.due()
    quiet.say("nothing")
    quiet.show(READING)
    quiet.epoch(ROW, is_best=True, seconds_left=1)
    quiet.close()
    assert capsys.readouterr().out == ""
