from __future__ import annotations

import time

import pytest

from signwise.bench.memory import bare_bytes, peak_bytes
from signwise.bench.timing import alternate


def test_contenders_alternate_and_each_is_timed() -> None:
    calls: list[str] = []
    actions = {"a": lambda: (calls.append("a"), time.sleep(0.03)), "b": lambda: (calls.append("b"), time.sleep(0.06))}
    timings = alternate(actions, seconds=0.01, least_rounds=4)
    # In no round does one come twice before the other has had its turn, warm-ups aside.
    assert calls.count("a") == calls.count("b") == 9
    assert 0.03 <= timings["a"].best < timings["b"].best
    assert timings["a"].best <= timings["a"].median
    assert timings["a"].runs == timings["b"].runs == 4


def test_short_runs_are_timed_many_at_a_time() -> None:
    timings = alternate({"short": lambda: None}, seconds=0.0, least_rounds=2)
    assert timings["short"].runs == 100


def test_no_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="least_rounds must be at least 1, got 0"):
        alternate({}, seconds=1, least_rounds=0)


def test_the_peak_rises_with_what_is_held_and_stays() -> None:
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
