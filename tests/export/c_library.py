"""Exported C as a library of this machine, so that tests can call it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.export import Source
from signwise.program import IntegerProgram

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")


class Library:
    """``net_run`` for batches of examples; compiled with every warning as an error, and with checks of overflow."""

    def __init__(self, program: IntegerProgram, source: Source, folder: Path, *, sanitize: bool = True) -> None:
        for file, text in source.files.items():
            (folder / file).write_text(text, encoding="utf-8")
        checks = ["-fsanitize=undefined", "-fno-sanitize-recover=all", "-static-libubsan"] if sanitize else []
        words = ["gcc", *WARNINGS, "-O2", "-shared", "-fPIC", *checks, "net.c", "signwise_kernels.c", "-o", "net.so"]
        subprocess.run(words, cwd=folder, check=True)
        self._run = ctypes.CDLL(str(folder / "net.so")).net_run
        self._run.argtypes = [ctypes.c_void_p] * 3
        self._program, self._arena_bytes = program, source.arena_bytes

    def __call__(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        inputs = (self._program.as_bytes(examples).astype(np.int16) - 128).astype(np.int8)
        guard = 64
        arena = np.full((self._arena_bytes + 2 * guard) // 4, 0xA5A5A5A5, np.uint32).view(np.uint8)
        outputs = int(np.prod(self._program.run(examples[:1]).shape[1:]))
        found = np.zeros((len(inputs), outputs), np.int32)
        for image, scores in zip(inputs, found, strict=True):
            arena[guard:-guard] = 0xEE  # nothing may last from one call to the next
            assert self._run(image.ctypes.data, scores.ctypes.data, arena[guard:].ctypes.data) == 0
        assert (arena[:guard] == 0xA5).all() and (arena[-guard:] == 0xA5).all(), "wrote beyond the arena"
        return found

    def refuses_arena(self, shift: int) -> bool:
        """Whether a call with an arena that begins so many bytes after an aligned one fails."""
        arena = np.zeros(self._arena_bytes // 4 + 2, np.uint32).view(np.uint8)
        inputs, scores = np.zeros(self._program.input_shape, np.int8), np.zeros(64, np.int32)
        return bool(self._run(inputs.ctypes.data, scores.ctypes.data, arena[shift:].ctypes.data) == -1)
