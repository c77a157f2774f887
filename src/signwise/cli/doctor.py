"""``signwise doctor``: what is installed, what the kernels chose, where things are; also for reports of problems."""

from __future__ import annotations

import argparse
import json
import os
import platform
import warnings
from typing import Any

_MISSING = "not installed"
_PACKAGES = {
    "numpy": "needed",
    "safetensors": "needed",
    "torch": "pip install 'signwise[train]'",
    "rich": "pip install 'signwise[train]'",
    "matplotlib": "pip install 'signwise[train]'",
    "tensorboard": "pip install 'signwise[train]'",
    "onnxruntime": "pip install 'signwise[bench]'",
    "openvino": "pip install 'signwise[bench]'",
    "MNN": "pip install 'signwise[bench]'",
}


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "doctor",
        help="show versions, kernels, threads and devices",
        description="Show what is installed, which kernels this machine runs, and where data is kept. "
        "Put the output into a report of a problem.",
        epilog="example: signwise doctor --json > doctor.json",
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Examine and print."""
    findings = examine()
    if arguments.json:
        print(json.dumps(findings, indent=2))
        return 0
    width = max(len(name) for part in findings.values() for name in part)
    for title, part in findings.items():
        print(title)
        for name, value in part.items():
            print(f"  {name:{width}}  {value}")
    return 0


def examine() -> dict[str, dict[str, str]]:
    """What there is to know, in parts, as text."""
    return {
        "versions": _versions(),
        "machine": _machine(),
        "kernels": _kernels(),
        "devices": _devices(),
        "data": _data(),
    }


def _versions() -> dict[str, str]:
    from signwise import provenance

    found = provenance.versions(*_PACKAGES)
    return {name: found.get(name, "") for name in ("signwise", "python")} | {
        name: found.get(name) or f"{_MISSING} ({hint})" for name, hint in _PACKAGES.items()
    }


def _machine() -> dict[str, str]:
    from signwise import provenance

    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": provenance.processor(),
        "cores": str(os.cpu_count()),
    }


def _kernels() -> dict[str, str]:
    from signwise.runtime import native

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chosen = native.isa()
    if chosen is None:
        reason = str(caught[0].message) if caught else "no native library"
        return {"chosen": f"none, numpy is used: {reason}"}
    return {
        "chosen": chosen,
        "available": ", ".join(native.available_isas()) + " (SIGNWISE_ISA chooses)",
        "threads": f"{native.default_threads()} (SIGNWISE_THREADS chooses)",
    }


def _devices() -> dict[str, str]:
    try:
        import torch
    except ImportError:
        return {"accelerator": "unknown without PyTorch; running packed files needs none"}
    if torch.cuda.is_available():
        return {f"cuda:{index}": torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    if torch.backends.mps.is_available():
        return {"mps": "Apple GPU"}
    return {"accelerator": "none seen; training uses the CPU"}


def _data() -> dict[str, str]:
    from signwise import datasets, shipped
    from signwise.datasets.cache import VARIABLE

    folder = datasets.data_folder()
    source = f"from {VARIABLE}" if os.environ.get(VARIABLE) else f"set {VARIABLE} to choose another"
    state = "" if folder.is_dir() else ", not there yet"
    return {
        "folder": f"{folder} ({source}{state})",
        "embedded": "mnist",
        "shipped networks": ", ".join(shipped.names()) or "none",
    }
