"""Build a network for a Cortex-M, run it in an emulator, and count: bytes of flash, instructions, bytes of stack.

Needs ``apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm``. The emulator counts instructions,
not cycles: with ``-icount shift=0`` each takes one nanosecond, which the timer of the processor counts.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from signwise.export.c_source import Source

HERE = Path(__file__).parent
COMPILER, EMULATOR = "arm-none-eabi-gcc", "qemu-system-arm"
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")


class Board(NamedTuple):
    """What the emulator calls a board, the nanoseconds per tick of its timer, and its bytes of memory."""

    name: str
    tick: float
    memory: int


BOARDS = {
    "cortex-m0": Board("microbit", 62.5, 16 * 1024),
    "cortex-m3": Board("mps2-an385", 40.0, 256 * 1024),
    "cortex-m4": Board("mps2-an386", 40.0, 256 * 1024),
    "cortex-m7": Board("mps2-an500", 40.0, 256 * 1024),
}
STACK = 1024  # bytes that have to be left beside the arena


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one core needs for one inference.

    Args:
        scores: the outputs, ``(images, outputs)``.
        instructions: per image, rounded to the tick of the timer.
        stack_bytes: the deepest that the stack reached.
        flash_bytes: code and constants of the network and its kernels.
        code_bytes: those without the network's weights.
    """

    scores: npt.NDArray[np.int32]
    instructions: tuple[int, ...]
    stack_bytes: int
    flash_bytes: int
    code_bytes: int


def missing_tools() -> list[str]:
    """The programs that are needed and not installed."""
    return [tool for tool in (COMPILER, EMULATOR) if shutil.which(tool) is None]


def measure(source: Source, images: npt.NDArray[np.int8], core: str, folder: Path, optimize: str = "-O2") -> Measured:
    """Build a network called ``net`` for a core, and run it on images.

    Args:
        source: the C files.
        images: ``(count, bytes of an input)``.
        core: a key of :data:`BOARDS`.
        folder: for the files.
        optimize: the compiler's option.
    """
    for file, text in source.files.items():
        (folder / file).write_text(text, encoding="utf-8")
    rows = ",\n".join("{" + ", ".join(map(str, row.reshape(-1).tolist())) + "}" for row in images)
    size = images[0].size
    (folder / "images.h").write_text(
        f"#define IMAGES {len(images)}\nstatic const int8_t images[IMAGES][{size}] = {{\n{rows}}};\n", encoding="utf-8"
    )
    compiler = [COMPILER, f"-mcpu={core}", "-mthumb", optimize, "-ffunction-sections", "-fdata-sections", *WARNINGS]
    for name in ("net.c", "signwise_kernels.c", str(HERE / "main.c")):
        _run([*compiler, "-I.", "-c", name, "-o", f"{Path(name).stem}.o"], folder)
    linker = [COMPILER, f"-mcpu={core}", "-mthumb", "-nostartfiles", "-Wl,--gc-sections"]
    # What the network alone takes: everything that its one function reaches.
    _run([*linker, "-Wl,-e,net_run", "net.o", "signwise_kernels.o", "-lc", "-lgcc", "-o", "flash.elf"], folder)
    board = BOARDS[core]
    if source.arena_bytes + STACK > board.memory:
        board = BOARDS["cortex-m3"]  # the emulated M0 has little memory; an M3 runs the same instructions
    objects = [f"-Wl,--defsym=RAM_BYTES={board.memory}", "main.o", "net.o", "signwise_kernels.o", "-lc", "-lgcc"]
    _run([*linker, "-T", str(HERE / "link.ld"), *objects, "-o", "net.elf"], folder)
    printed = _run(
        [
            *(EMULATOR, "-M", board.name, "-display", "none", "-monitor", "none", "-serial", "none"),
            *("-semihosting-config", "enable=on,target=native", "-icount", "shift=0", "-kernel", "net.elf"),
        ],
        folder,
    )
    lines = [line.split() for line in printed.splitlines()]
    found = {
        key: [list(map(int, words)) for name, *words in lines if name == key] for key in ("scores", "ticks", "stack")
    }
    if not len(found["scores"]) == len(found["ticks"]) == len(images):
        raise RuntimeError(f"the emulated {core} printed {printed!r}")
    sections = _sections(_run(["arm-none-eabi-size", "-A", "flash.elf"], folder))
    flash = sum(size for name, size in sections.items() if name.startswith((".text", ".rodata", ".data")))
    return Measured(
        scores=np.array(found["scores"], np.int32),
        instructions=tuple(round(ticks * board.tick) for (ticks,) in found["ticks"]),
        stack_bytes=max(stack for (stack,) in found["stack"]),
        flash_bytes=flash,
        code_bytes=flash - source.weight_bytes,
    )


def _run(words: list[str], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def _sections(text: str) -> dict[str, int]:
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[0].startswith(".")}
