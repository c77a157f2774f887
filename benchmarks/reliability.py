"""How the native runtime holds out: figures for ``results/reliability-native.json``, one part per command.

    python benchmarks/reliability.py fuzz build/fuzz.json          # counts that tests/fuzz_file.py wrote, added up
    python benchmarks/reliability.py threads build/threads/thread_stress --seconds 60
    python benchmarks/reliability.py calls --count 1000000         # bytes of memory per call
    python benchmarks/reliability.py exhaustion                    # less and less memory, a process each

Each command exits with 1 if what it counts is not as promised in SECURITY.md. ``make reliability`` runs them all.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import signwise as sw
from signwise.provenance import now, revision, write_record
from signwise.runtime import native

LARGEST_BATCH = 4
POINTS = 100  # at which the memory is looked at

# A process with few KiB of address space left once it is loaded. It must compute or raise, and then work again.
EXHAUSTED = """
import resource, sys
import numpy as np
import signwise as sw
from signwise.errors import SignwiseError

session = sw.load("lenet5-mnist-1bit", threads=2)
examples = np.zeros((int(sys.argv[2]), 1, 28, 28), np.float32)
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (size + 1024 * int(sys.argv[1]), limits[1]))
try:
    session(examples)
    outcome = "answered"
except (SignwiseError, MemoryError):
    outcome = "raised"
resource.setrlimit(resource.RLIMIT_AS, limits)
assert session(examples).shape == (len(examples), 10)
print(outcome)
"""


def fuzz(arguments: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    # The fuzzer ends at the first crash or report, so whatever it has written is clean.
    parts = [json.loads(path.read_text()) for path in arguments.counts]
    revisions = {revision(): sum(part["files"] for part in parts)}
    if arguments.add:
        recorded = read_parts(arguments.out)["fuzz"]
        revisions = recorded.get("revisions", {recorded["revision"]: recorded["files"]}) | revisions
        parts.append(recorded)
    found: dict[str, Any] = {name: sum(part[name] for part in parts) for name in ("files", "refused", "loaded", "run")}
    found["slowest_seconds"] = max(part["slowest_seconds"] for part in parts)
    return found | {"seconds": max(part["seconds"] for part in parts), "revisions": revisions}, True


def threads(arguments: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    found: dict[str, Any] = {"seconds": arguments.seconds, "callers": 4, "reports": 0}
    for isa in native.available_isas():
        environment = {**os.environ, "SIGNWISE_ISA": isa, "TSAN_OPTIONS": "halt_on_error=0"}
        command = [str(arguments.program), str(arguments.seconds), "4"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        counted = re.search(r"runs (\d+), programs (\d+), wrong (\d+)", done.stdout)
        if counted is None:
            raise SystemExit(f"{arguments.program} ended with {done.returncode}: {done.stderr[-2000:]}")
        runs, programs, wrong = map(int, counted.groups())
        found[isa] = {"runs": runs, "programs": programs, "wrong": wrong}
        found["reports"] += done.stderr.count("WARNING: ThreadSanitizer")
    return found, found["reports"] == 0 and all(found[isa]["wrong"] == 0 for isa in native.available_isas())


def resident_bytes() -> int:
    """The memory that the process itself has allocated: pages of files come and go as the system likes."""
    found = re.search(r"^RssAnon:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


def calls(arguments: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """LeNet5 and the programs of the fuzzer, which have every operation, in turn and with batches of 1 to 4."""
    fuzz = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "fuzz_file.py"))
    lenet5 = sw.load("lenet5-mnist-1bit", threads=arguments.threads)
    programs = [lenet5.program, *(program() for program in fuzz["SEEDS"])]
    sessions = [lenet5, *(program.session(arguments.threads) for program in programs[1:])]
    examples = [fuzz["random_inputs"](program, seed=1, count=LARGEST_BATCH) for program in programs]
    shared = [(which, batch) for batch in range(1, LARGEST_BATCH + 1) for which in range(len(sessions))]
    rounds = -(-arguments.count // (len(shared) * POINTS))
    sizes, begun = [], time.perf_counter()
    for point in range(1 + POINTS):  # the first point makes every plan
        for _ in range(rounds if point else 1):
            for which, batch in shared:
                sessions[which](*(part[:batch] for part in examples[which]))
        if point:
            sizes.append(resident_bytes())
    # The first tenth belongs to the allocator, which settles.
    settled = sizes[POINTS // 10 :]
    slope = np.polyfit(np.arange(len(settled)) * (rounds * len(shared)), settled, 1)[0]
    found = {
        "calls": rounds * len(shared) * POINTS,
        "programs": len(programs),
        "threads": arguments.threads,
        "seconds": round(time.perf_counter() - begun),
        "bytes_per_call": round(float(slope), 3),
        "growth_bytes": settled[-1] - settled[0],
        "resident_bytes": settled[-1],
    }
    return found, abs(slope) < 1


def exhaustion(arguments: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    outcomes = {"answered": 0, "raised": 0, "failed": 0}
    sizes = [round(size) for size in np.geomspace(4, 2**16, arguments.processes)]
    for size in sizes:
        command = [sys.executable, "-c", EXHAUSTED, str(size), "64"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        outcome = done.stdout.strip() if done.returncode == 0 else "failed"
        outcomes[outcome] += 1
        if outcome == "failed":
            print(f"{size} KiB left: exit {done.returncode} {done.stderr.strip()[-300:]}", file=sys.stderr)
    return {"processes": len(sizes), "least_kib": sizes[0], "most_kib": sizes[-1], **outcomes}, outcomes["failed"] == 0


def read_parts(path: Path) -> dict[str, Any]:
    parts: dict[str, Any] = json.loads(path.read_text())["parts"] if path.exists() else {}
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/reliability-native.json"), help="the record")
    commands = parser.add_subparsers(dest="command", required=True)
    fuzzed = commands.add_parser("fuzz")
    fuzzed.add_argument("counts", type=Path, nargs="+", help="of one fuzzer, or of several with other seeds")
    fuzzed.add_argument("--add", action="store_true", help="to the counts in the record, of other seeds or revisions")
    fuzzed.set_defaults(measure=fuzz)
    threaded = commands.add_parser("threads")
    threaded.add_argument("program", type=Path)
    threaded.add_argument("--seconds", type=float, default=60)
    threaded.set_defaults(measure=threads)
    called = commands.add_parser("calls")
    called.add_argument("--count", type=int, default=1_000_000)
    called.add_argument("--threads", type=int, default=1)
    called.set_defaults(measure=calls)
    exhausted = commands.add_parser("exhaustion")
    exhausted.add_argument("--processes", type=int, default=100)
    exhausted.set_defaults(measure=exhaustion)
    arguments = parser.parse_args()
    found, as_promised = arguments.measure(arguments)
    found |= {"date": now(), "revision": revision()}
    print(f"{arguments.command}: {', '.join(f'{name} {value}' for name, value in found.items())}")
    write_record(arguments.out, {"parts": read_parts(arguments.out) | {arguments.command: found}})
    raise SystemExit(0 if as_promised else 1)


if __name__ == "__main__":
    main()
