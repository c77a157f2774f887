"""What a result depends on besides its recipe: versions, hardware and the revision of the code."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from signwise import __version__

_PACKAGES = ("torch", "numpy", "safetensors")


def now() -> str:
    """The time, to the second, in UTC."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that compute."""
    found = {"signwise": __version__, "python": platform.python_version()}
    return found | {package: importlib.metadata.version(package) for package in _PACKAGES}


def processor() -> str:
    """The name of the CPU, or of its architecture where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def hardware(device: torch.device) -> dict[str, Any]:
    """The machine and the device that trains."""
    found = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": str(device),
    }
    if device.type == "cuda":
        found["accelerator"] = torch.cuda.get_device_name(device)
    return found


def revision() -> str | None:
    """The git revision of this package's source, marked ``+changes`` if it differs; ``None`` if installed."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        # An installed copy may lie inside of somebody else's repository, whose revision says nothing about us.
        git("ls-files", "--error-unmatch", "environment.py")
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--", "..") else "")
    except (OSError, subprocess.SubprocessError):
        return None
