"""What things cost: their time, alone or in turn with whatever they are compared with, and the memory of a process.

The best run counts, because other programs on the machine only ever add to a time. A machine is also faster in one
second than in the next: taking turns gives every contender its share of both, so that ratios hold where absolute times
do not.
"""

from __future__ import annotations

import inspect
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

_BURST_SECONDS = 0.03  # short runs are timed several in a row, as they would be used
_LONGEST_BURST = 50
_PAUSE_SECONDS = 0.02  # lets the threads of the previous contender go to sleep
_WARM_SECONDS = 0.2  # longer runs bring their own warm-up


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The times of many runs, in seconds.

    Args:
        best: the fastest run.
        median: the middle one.
        runs: how many there were.
    """

    best: float
    median: float
    runs: int


def best_seconds(
    action: Callable[[], object], *, seconds: float = 1.0, least: int = 1, most: int | None = None
) -> float:
    """The time of the fastest run, after one run to warm up.

    Args:
        action: what to time.
        seconds: how long to repeat it.
        least: the least number of runs, even if they take longer.
        most: the largest number of runs, even if there is time left.

    Example:
        >>> best_seconds(lambda: time.sleep(0.01), seconds=0, least=2) >= 0.01
        True
    """
    action()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < least or (time.perf_counter() < end and len(times) != most):
        times.append(_seconds(action))
    return min(times)


def alternate(
    actions: Mapping[Key, Callable[[], object]], *, seconds: float, least_rounds: int = 3
) -> dict[Key, Timing]:
    """Time actions in rounds, every action once per round in a new order, until the time is used up.

    Args:
        actions: what to time, by any key.
        seconds: about how long the whole may take.
        least_rounds: the least number of rounds, even if they take longer.

    Returns:
        The timing of each action, by its key.

    Example:
        >>> timings = alternate({"short": lambda: sum(range(10)), "long": lambda: sum(range(100_000))}, seconds=0.2)
        >>> timings["short"].best < timings["long"].best
        True
    """
    if least_rounds < 1:
        raise ValueError(f"least_rounds must be at least 1, got {least_rounds}")
    started = time.perf_counter()
    expected = {key: _seconds(action) for key, action in actions.items()}
    measured: dict[Key, list[float]] = {key: [] for key in actions}
    order, shuffle = list(actions), random.Random(0).shuffle
    rounds = 0
    while rounds < least_rounds or time.perf_counter() - started < seconds:
        shuffle(order)
        for key in order:
            action = actions[key]
            time.sleep(_PAUSE_SECONDS)
            if expected[key] < _WARM_SECONDS:
                action()
            burst = max(1, min(_LONGEST_BURST, int(_BURST_SECONDS / max(expected[key], 1e-9))))
            measured[key] += [_seconds(action) for _ in range(burst)]
            expected[key] = min(measured[key])
        rounds += 1
    return {
        key: Timing(best=min(times), median=statistics.median(times), runs=len(times))
        for key, times in measured.items()
    }


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def peak_bytes() -> int:
    """The peak resident size of this process so far, in bytes; 0 where the system does not report it."""
    try:
        # Not getrusage: on Linux a child starts there with the peak of its parent.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def bare_bytes() -> int:
    """The peak of a fresh Python with numpy: the baseline that every engine is measured above."""
    # The source of one function, because importing this module would load more than numpy. subprocess belongs to the
    # baseline of every record so far.
    modules = "import subprocess, sys\nfrom pathlib import Path\nimport numpy\n"
    code = f"{modules}{inspect.getsource(peak_bytes)}sys.stdout.write(str(peak_bytes()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)
