"""Peak resident memory of a process.

Run as a script, this file prints the peak of a Python that has imported numpy and nothing else. It therefore imports
nothing of this package.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    return int(done.stdout)


if __name__ == "__main__":
    import numpy  # noqa: F401 - its memory is what is measured

    sys.stdout.write(f"{peak_bytes()}\n")
