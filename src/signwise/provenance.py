"""What a result depends on besides its recipe: versions, hardware and the revision of the code.

Every number in the documentation is rendered from a record, a JSON file that holds the result and all of this.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from signwise import __version__
from signwise.atomic import atomic_write

_PACKAGES = ("torch", "numpy", "safetensors")


def now() -> str:
    """The current time in UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def versions(*more: str) -> dict[str, str]:
    """The versions of signwise, Python, and the packages that affect results; ``more`` names further ones."""
    installed = {package.metadata["Name"].lower(): package.version for package in importlib.metadata.distributions()}
    wanted = [package for package in (*_PACKAGES, *more) if package.lower() in installed]
    found = {"signwise": __version__, "python": platform.python_version()}
    return found | {package: installed[package.lower()] for package in wanted}


def processor() -> str:
    """The name of the CPU, or of its architecture if the system does not report one."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def hardware(device: str = "cpu", accelerator: str | None = None) -> dict[str, Any]:
    """The machine and the device that ran the computation."""
    found = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": device,
    }
    return found if accelerator is None else found | {"accelerator": accelerator}


def revision() -> str | None:
    """The git revision of this source, followed by ``+changes`` if it was modified; None for an installed package."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        # An installed copy may be inside another repository, whose revision says nothing about this code.
        git("ls-files", "--error-unmatch", "provenance.py")
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def write_record(path: Path, result: dict[str, Any], *packages: str) -> None:
    """Write a result as JSON, with date, versions (also of ``packages``), hardware and revision."""
    origin = {"date": now(), "versions": versions(*packages), "hardware": hardware(), "revision": revision()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(json.dumps(origin | result, indent=1).encode() + b"\n")
