"""Sessions in processes that may not start threads, that fork, that copy them, and that have little memory."""

from __future__ import annotations

import copy
import math
import pickle
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from signwise.program import Program
from signwise.program import operations as ops
from signwise.runtime import Session, native

needs_library = pytest.mark.skipif(not native.available_isas(), reason="needs the native library")
needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

# Leaves so many MiB of address space: a few threads start, the next one cannot.
FEW_THREADS = """
import resource, sys
import numpy as np
from signwise.program import Program
from signwise.program import operations as ops

threads, mebibytes = map(int, sys.argv[1:])
program = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
session = program.session(threads)
with open("/proc/self/statm") as file:
    left = int(file.read().split()[0]) * resource.getpagesize() + mebibytes * 2**20
resource.setrlimit(resource.RLIMIT_AS, (left, left))
for batch in (1, 300):
    assert (session(np.ones((batch, 3), np.float32)) == 1).all()
print("answered")
"""

# The main thread forks while another one is planning a convolution; the child then runs the same session.
FORK_WHILE_PLANNING = """
import os, signal, threading, time
import numpy as np
from signwise.program import Program
from signwise.program import operations as ops

size = 160
conv = ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=1, kernel=(size, size))
tensors = {"w": np.zeros((1, size * size // 8), np.uint8)}
program = Program(input_shape=(1, size + 30, size + 30), ops=(conv,), tensors=tensors, output=1)
examples = np.zeros((2, *program.input_shape), np.float32)
current = program.session(2)
stop = False

def plan() -> None:
    global current
    while not stop:
        current = program.session(2)
        current(examples)

threading.Thread(target=plan, daemon=True).start()
for _ in range(6):
    time.sleep(0.02)
    session = current
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        session(examples)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "the child did not answer"
stop = True
print("answered", flush=True)
os._exit(0)
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_library
@needs_proc
@pytest.mark.parametrize(("threads", "mebibytes"), [("16", "40"), ("64", "100"), ("256", "500"), ("1024", "4")])
def test_threads_that_cannot_be_started_are_done_without(threads: str, mebibytes: str) -> None:
    assert run(FEW_THREADS, threads, mebibytes) == "answered\n"


@needs_library
@needs_proc
def test_a_child_forked_while_another_thread_plans_answers() -> None:
    assert run(FORK_WHILE_PLANNING) == "answered\n"


@needs_library
def test_copies_of_a_session_prepare_their_own_program() -> None:
    program = Program(input_shape=(2,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
    session = program.session(2)
    for other in (copy.copy(session), copy.deepcopy(session), pickle.loads(pickle.dumps(session))):
        assert other.threads == 2 and other.native is not session.native
        np.testing.assert_array_equal(other(np.array([[-1.0, 2.0]])), [[0, 2]])
        del other
    np.testing.assert_array_equal(session(np.array([[-1.0, 2.0]])), [[0, 2]])


def thread_count() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@needs_library
@needs_proc
def test_sessions_with_the_same_number_of_threads_share_them() -> None:
    program = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
    before = thread_count()
    for _ in range(10):
        Session(program, 7)(np.ones((300, 3), np.float32))
    assert thread_count() - before == 6  # beside the thread that calls


@needs_library
def test_other_python_threads_run_while_a_session_computes() -> None:
    conv = ops.Conv(inputs=(0,), weight="w", bits=32, out_channels=64, kernel=(3, 3), padding=(1, 1, 1, 1))
    weight = np.zeros((64, 64, 3, 3), np.float32)
    session = Program(input_shape=(64, 64, 64), ops=(conv,), tensors={"w": weight}, output=1).session(1)
    examples = np.zeros((32, 64, 64, 64), np.float32)
    caller = threading.Thread(target=session, args=(examples,))
    turns = 0
    caller.start()
    while caller.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 10


def peak_bytes() -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


@needs_library
@needs_proc
@pytest.mark.parametrize(
    ("kernel", "padding", "image", "stride"),
    [
        ((1024, 1024), (0, 0), (1031, 1031), 1),
        ((300, 613), (150, 306), (8, 8), 1),
        ((945, 639), (0, 0), (948, 728), 2),
        ((943, 604), (455, 276), (36, 75), 1),
        ((157, 961), (40, 500), (90, 30), 3),
        ((63, 63), (31, 31), (64, 64), 1),
        ((1, 1024), (0, 1023), (50, 20), 1),
        ((3, 3), (1, 1), (700, 700), 1),
    ],
)
def test_planning_takes_memory_in_proportion_to_kernel_positions_and_output_pixels(
    kernel: tuple[int, int], padding: tuple[int, int], image: tuple[int, int], stride: int
) -> None:
    conv = ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=1, kernel=kernel, padding=padding * 2,
                    stride=(stride, stride))  # fmt: skip
    weight = np.zeros((1, (math.prod(kernel) + 7) // 8), np.uint8)
    program = Program(input_shape=(1, *image), ops=(conv,), tensors={"w": weight}, output=1)
    session, examples = program.session(1), np.zeros((1, 1, *image), np.float32)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before = peak_bytes()
    session(examples)
    places = math.prod(kernel) + math.prod(program.shapes[1])
    assert peak_bytes() - before < 2**22 + 256 * places
