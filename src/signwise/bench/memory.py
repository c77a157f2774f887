"""The most memory that a process has ever held in RAM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def peak_bytes() -> int:
    """The peak resident size of this process so far, in bytes; 0 where the system does not tell."""
    try:
        # Not getrusage: on Linux a child inherits there the peak of the parent that it was split from.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def bare_bytes() -> int:
    """The peak of a fresh Python that has imported numpy and nothing else: what any engine is measured above."""
    source = Path(__file__).read_text(encoding="utf-8")
    # The function above in a process without this package around it.
    code = f"import numpy\nsource = {source!r}\nexec(compile(source, 'memory.py', 'exec'))\nprint(peak_bytes())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)
