"""Kill a training again and again, and compare every bit of its result with a run that was left alone.

    python benchmarks/kill_training.py                          # half an hour; writes results/reliability.json
    python benchmarks/kill_training.py --kills 10 --faults 0 --torchrun-kills 0

1. Kills: LeNet5 on 2,000 images of MNIST, 60 steps with a checkpoint after each. SIGKILL at a random moment, resume,
   and so on to the end; then the next run, until enough kills have hit.
2. Faults: ``strace`` makes one system call after another of the writing of a checkpoint fail with ENOSPC, EIO or
   EMFILE, or kills the process there. Afterwards the old or the new checkpoint must be readable, and the next write
   must succeed.
3. torchrun: the same training on two processes; SIGKILL of one of them, and ``torchrun`` restarts both.

Each part replaces its section of the record; ``make render`` puts them on docs/reliability.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import lzma
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import signwise.cli
from signwise import datasets, provenance
from signwise.atomic import atomic_write
from signwise.errors import SignwiseError
from signwise.training import checkpoint
from signwise.training.run_folder import read_config, read_records

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "results" / "reliability.json"

STEPS = 60
TRAINING = ["train", "lenet5-mnist", "--epochs", "3", "--train-samples", "2000", "--test-samples", "500"]
TRAINING += ["--device", "cpu", "--no-tensorboard"]
EACH_STEP = ["--checkpoint-minutes", "0"]

# The errors that a system call may fail with, beside the kill of the process inside of it.
ERRORS = {
    "openat": ("EMFILE", "ENOSPC"),
    "read": ("EIO",),
    "write": ("ENOSPC", "EIO"),
    "fsync": ("EIO", "ENOSPC"),
    "rename": ("EIO", "ENOSPC"),
    "close": ("EIO",),
}

# A server that has imported PyTorch once forks each process in no time, so that most kills hit the training itself.
FORKS = multiprocessing.get_context("forkserver")


def story(folder: Path) -> Any:
    """What a run leaves behind, apart from times."""
    metrics = read_records(folder / "metrics.jsonl")
    for row in metrics:
        del row["seconds"], row["images_per_second"]
    result = dict(read_config(folder)["result"])
    del result["seconds"]
    weights = [(folder / f"{name}.safetensors").read_bytes() for name in ("best", "last")]
    final, _ = checkpoint.read(folder)
    assert final is not None
    state = {name: value.numpy().tobytes() for name, value in final.tensors.items()}
    return metrics, read_records(folder / "state.jsonl"), result, weights, state


def steps_done(folder: Path) -> int:
    found = checkpoint.read(folder)[0] if folder.exists() else None
    return 0 if found is None else int(found.record["progress"]["step"])


def unpacked_mnist(folder: Path) -> Path:
    """MNIST without its compression, so that a process starts training at once."""
    folder.mkdir()
    for path in (Path(datasets.__file__).parent / "embedded").glob("*.xz"):
        (folder / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    return folder


def kill_runs(work: Path, data: Path, kills: int, rng: random.Random) -> dict[str, Any]:
    """Runs in one process, killed at random moments."""
    FORKS.set_forkserver_preload(["signwise.training.run", "torch._dynamo"])
    command = [*TRAINING, "--threads", "1", "--data", str(data)]

    def start(*more: str) -> Any:
        process = FORKS.Process(target=_silently, args=([*command, *more],))
        process.start()
        return process

    start("--help").join()  # the first fork waits for the server to come up
    began = time.monotonic()
    first = start("--out", str(work / "whole"), *EACH_STEP)
    while first.is_alive() and not steps_done(work / "whole"):
        time.sleep(0.01)
    until_first_step = time.monotonic() - began
    first.join()
    training = time.monotonic() - began - until_first_step
    whole = story(work / "whole")

    hits, unfinished, runs, identical = 0, 0, 0, 0
    steps: set[int] = set()
    while hits < kills:
        folder = work / f"killed-{runs}"
        patience = 1.0
        while hits < kills and (before := steps_done(folder)) < STEPS:
            process = start("--out", str(folder), "--resume", *EACH_STEP)
            # From within the start to a fifth of the training further on, so that a run lasts for several kills; later
            # if the last one came before any step, on a machine that has become busier.
            process.join(timeout=patience * rng.uniform(until_first_step / 2, until_first_step + training / 5))
            patience = 1.0 if steps_done(folder) > before else patience * 1.3
            process.kill()
            process.join()
            if process.exitcode == -signal.SIGKILL:
                hits += 1
                unfinished += bool(list(folder.glob(".*.part")))
                steps.add(steps_done(folder))
                print(f"kill {hits} of {kills}: run {runs + 1}, step {steps_done(folder)}", flush=True)
        start("--out", str(folder), "--resume").join()
        runs += 1
        identical += story(folder) == whole
        shutil.rmtree(folder)
    return {
        "kills": hits,
        "runs": runs,
        "identical": identical,
        "distinct_steps": len(steps),
        "unfinished_files": unfinished,
    }


def _silently(arguments: list[str]) -> None:
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        sys.exit(signwise.cli.main(arguments))


@dataclass(frozen=True)
class Call:
    """A system call of the writing of a checkpoint: its name, and how many of that name the process made before."""

    name: str
    earlier: int


def write_checkpoint(folder: Path, number: int) -> int:
    """The victim: write one checkpoint whose every number is ``number``."""
    state = checkpoint.Checkpoint(
        {"network/w": torch.full((300_000,), float(number))}, {"kind": "checkpoint", "progress": {"step": number}}
    )
    folder.stat()  # marks the beginning in the trace
    try:
        checkpoint.write(folder, state)
    except SignwiseError as error:
        print(error)
        return 2
    return 0


def traced(folder: Path, number: int, log: Path, inject: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the victim under strace."""
    strace = ["strace", "-f", "-y", "-qq", "-o", str(log), "-e", f"trace={','.join(ERRORS)}"]
    fault = [] if inject is None else ["-e", f"inject={inject}"]
    victim = [sys.executable, __file__, "--victim", str(folder), str(number)]
    return subprocess.run([*strace, *fault, *victim], capture_output=True, text=True, check=False)


def calls_in(log: Path, folder: Path) -> list[Call]:
    """The calls of a trace that concern the folder, in order."""
    counts: dict[tuple[str, str], int] = {}
    found = []
    for line in log.read_text(errors="replace").splitlines():
        match = re.match(r"(\d+) +(\w+)\(", line)
        if match is None:
            continue
        thread, name = match.groups()  # strace counts per thread
        earlier = counts.get((thread, name), 0)
        counts[thread, name] = earlier + 1
        if str(folder) in line:
            found.append(Call(name, earlier))
    return found


def inject_faults(work: Path, most: int | None) -> dict[str, Any]:
    """One fault at a time, at every system call of the third checkpoint of a folder."""
    pristine = work / "pristine"
    pristine.mkdir()
    for number in (1, 2):
        write_checkpoint(pristine, number)

    folder, log = work / "folder", work / "trace"

    def write_third(inject: str | None = None) -> subprocess.CompletedProcess[str]:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pristine, folder)
        return traced(folder, 3, log, inject)

    write_third()
    calls = calls_in(log, folder)
    faults = [(call, fault) for call in calls for fault in ("SIGKILL", *ERRORS[call.name])]
    chosen = faults if most is None else faults[:: max(1, -(-len(faults) // most))]
    tally = {"faults": 0, "missed": 0, "readable": 0, "old": 0, "new": 0, "said_why": 0, "next_write_succeeds": 0}
    for call, fault in chosen:
        what = "signal=SIGKILL" if fault == "SIGKILL" else f"error={fault}"
        where = f"{call.name} {call.earlier + 1}, {fault}"
        for _ in range(5):
            done = write_third(f"{call.name}:{what}:when={call.earlier + 1}")
            if _was_hit(log, folder, fault):
                break
        else:  # PyTorch does not make the same calls at every start
            tally["missed"] += 1
            print(f"{where}: missed", flush=True)
            continue
        found, _ = checkpoint.read(folder)
        step = 0 if found is None else int(found.record["progress"]["step"])
        expected = torch.full((300_000,), float(step))
        good = found is not None and step in (2, 3) and torch.equal(found.tensors["network/w"], expected)
        tally["faults"] += 1
        tally["readable"] += good
        tally["old" if step == 2 else "new"] += good
        tally["said_why"] += done.returncode == 2 and done.stdout.startswith("cannot write ")
        write_checkpoint(folder, 4)
        tally["next_write_succeeds"] += steps_done(folder) == 4
        print(f"{where}: exit {done.returncode}, step {step} is readable", flush=True)
    return tally | {"system_calls": len(calls)}


def _was_hit(log: Path, folder: Path, fault: str) -> bool:
    """Whether the fault came at a call that concerns the folder, and not at another that was counted in its place."""
    lines = log.read_text(errors="replace").splitlines()
    if fault == "SIGKILL":  # a call that never returned
        return any(str(folder) in line and line.endswith(("= ?", "<unfinished ...>")) for line in lines)
    return any("(INJECTED)" in line and str(folder) in line for line in lines)


def kill_torchrun(work: Path, data: Path, kills: int, rng: random.Random) -> dict[str, Any]:
    """Two processes under torchrun; one of them is killed, and torchrun starts both again."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "2"]
    torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    torchrun += ["--max-restarts", str(kills + 3), "--monitor-interval", "0.3"]

    def launch(out: Path, *more: str) -> subprocess.Popen[bytes]:
        command = [*torchrun, "-m", "signwise", *TRAINING, "--data", str(data), "--out", str(out), *more]
        with out.with_suffix(".log").open("wb") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)

    launch(work / "whole").wait()
    whole = story(work / "whole")
    hits, runs, identical = 0, 0, 0
    resumed: set[int] = set()
    while hits < kills:
        folder = work / f"killed-{runs}"
        job = launch(folder, "--resume", *EACH_STEP)
        seen: dict[int, int] = {}
        while job.poll() is None and hits < kills:
            now = _workers(job.pid)
            if len(now) < 2 or now == seen:
                time.sleep(0.1)
                continue
            before, deadline = steps_done(folder), time.monotonic() + 90
            if rng.random() < 0.25:
                time.sleep(rng.uniform(0, 8))  # while PyTorch starts and the processes meet
            else:
                while job.poll() is None and time.monotonic() < deadline and steps_done(folder) <= before:
                    time.sleep(0.01)
                time.sleep(rng.uniform(0, 0.5))
            if steps_done(folder) >= STEPS - 2:
                break
            rank = rng.choice([0, 1])
            with contextlib.suppress(ProcessLookupError):
                os.kill(now[rank], signal.SIGKILL)
                seen = now
                hits += 1
                print(f"kill {hits} of {kills}: rank {rank}, step {steps_done(folder)}", flush=True)
        job.wait(timeout=900)
        runs += 1
        resumed |= {attempt["step"] for attempt in read_config(folder).get("resumed", [])}
        identical += story(folder) == whole
    return {"kills": hits, "runs": runs, "identical": identical, "processes": 2, "distinct_steps": len(resumed)}


def _workers(parent: int) -> dict[int, int]:
    """The processes of a torchrun by rank."""
    found = {}
    children = Path(f"/proc/{parent}/task/{parent}/children")
    for pid in children.read_text().split() if children.exists() else []:
        with contextlib.suppress(OSError):
            rank = re.search(rb"\0LOCAL_RANK=(\d+)\0", Path(f"/proc/{pid}/environ").read_bytes())
            if rank is not None:
                found[int(rank[1])] = int(pid)
    return found


def holds(result: dict[str, Any]) -> bool:
    """Whether nothing was lost and nothing changed."""
    if "faults" in result:
        return bool(result["readable"] == result["next_write_succeeds"] == result["faults"])
    return bool(result["identical"] == result["runs"])


def read_record() -> dict[str, Any]:
    return dict(json.loads(RECORD.read_text(encoding="utf-8"))) if RECORD.exists() else {}


def keep(section: str, result: dict[str, Any]) -> None:
    """Put a result and its origin into the record."""
    origin = {
        "date": provenance.now(),
        "versions": provenance.versions(),
        "hardware": provenance.hardware(),
        "revision": provenance.revision(),
    }
    record = read_record() | {section: origin | result}
    with atomic_write(RECORD) as file:
        file.write(json.dumps(record, indent=1).encode() + b"\n")
    print(f"{section}: {json.dumps(result)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="kills of a single process (default: 100; 0 for none)")
    parser.add_argument("--faults", type=int, help="injected faults (default: all; 0 for none)")
    parser.add_argument("--torchrun-kills", type=int, default=20, help="kills under torchrun (default: 20; 0 for none)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--victim", nargs=2, metavar=("FOLDER", "NUMBER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.victim is not None:
        return write_checkpoint(Path(arguments.victim[0]), int(arguments.victim[1]))
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name).resolve()
        data = unpacked_mnist(work / "mnist")
        results: dict[str, dict[str, Any]] = {}
        for section in ("kills", "faults", "torchrun"):
            (work / section).mkdir()
        if arguments.kills:
            results["kills"] = kill_runs(work / "kills", data, arguments.kills, rng)
            keep("kills", results["kills"])
        if arguments.faults != 0:
            results["faults"] = inject_faults(work / "faults", arguments.faults)
            keep("faults", results["faults"])
        if arguments.torchrun_kills:
            results["torchrun"] = kill_torchrun(work / "torchrun", data, arguments.torchrun_kills, rng)
            keep("torchrun", results["torchrun"])
    return 0 if all(map(holds, results.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
