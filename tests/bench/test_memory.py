"""Peak memory: it rises with what a process holds, and a bare Python holds less than this one."""

from __future__ import annotations

from signwise.bench.memory import bare_bytes, peak_bytes


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
