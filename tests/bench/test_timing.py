"""Time and memory: contenders take turns and the best run counts; the peak rises with what a process holds."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from signwise.bench.timing import alternate, bare_bytes, best_seconds, peak_bytes


def test_contenders_alternate_and_each_is_timed() -> None:
    calls: list[str] = []

    def sleeping(name: str, seconds: float) -> Callable[[], None]:
        def action() -> None:
            calls.append(name)
            time.sleep(seconds)

        return action

    timings = alternate({"a": sleeping("a", 0.03), "b": sleeping("b", 0.06)}, seconds=0.01, least_rounds=4)
    # One expected time, then a warm-up and a timed run in each of the four rounds.
    assert calls.count("a") == calls.count("b") == 9
    assert 0.03 <= timings["a"].best < timings["b"].best
    assert timings["a"].best <= timings["a"].median
    assert timings["a"].runs == timings["b"].runs == 4


def test_short_runs_are_timed_in_bursts() -> None:
    timings = alternate({"short": lambda: None}, seconds=0.0, least_rounds=2)
    assert timings["short"].runs == 100


def test_zero_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="least_rounds must be at least 1, got 0"):
        alternate({}, seconds=1, least_rounds=0)


def test_the_best_run_counts_and_the_number_of_runs_has_two_bounds() -> None:
    calls: list[float] = []

    def action() -> None:
        calls.append(0.0)
        time.sleep(0.005 if len(calls) == 3 else 0.02)

    assert 0.005 <= best_seconds(action, seconds=0, least=4) < 0.02
    assert len(calls) == 1 + 4  # the first one warms up
    calls.clear()
    best_seconds(lambda: calls.append(0.0), seconds=10, most=3)
    assert len(calls) == 1 + 3


def test_the_peak_rises_with_allocations_and_stays_after_they_are_freed() -> None:
    before = peak_bytes()
    held = bytearray(before + 50_000_000)
    size = len(held)
    risen = peak_bytes()
    del held
    assert risen >= size
    # The system counts in batches of pages.
    assert peak_bytes() >= risen - 4_000_000


def test_a_bare_python_holds_less_than_this_one() -> None:
    assert 5_000_000 < bare_bytes() <= peak_bytes()
