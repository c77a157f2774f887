"""The instruction sets that the library finds are those that the system reports."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from signwise.runtime import native

CPUINFO = Path("/proc/cpuinfo")
NEEDED = {
    "avx2": "avx2 fma bmi1 bmi2 f16c movbe abm",
    "avx512": "avx512f avx512cd avx512bw avx512dq avx512vl",
    "avx512vnni": "avx512_vnni avx512vbmi",
}


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or not CPUINFO.exists() or not native.available_isas(),
    reason="needs the native library on x86-64 Linux",
)
def test_the_library_finds_the_instruction_sets_that_the_system_reports() -> None:
    lines = CPUINFO.read_text().splitlines()
    flags = set(next(line for line in lines if line.startswith("flags")).partition(":")[2].split())
    expected: list[str] = []
    for name, needed in NEEDED.items():  # each set builds on the one before
        if not set(needed.split()) <= flags:
            break
        expected.insert(0, name)
    assert native.available_isas() == (*expected, "portable")
