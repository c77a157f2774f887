"""``signwise doctor``: installed versions, the chosen kernels, devices and folders, also for bug reports."""

from __future__ import annotations

import argparse
import json
import os
import platform
import warnings
from typing import Any

from signwise.invocation import install
from signwise.text import aligned

_PACKAGES = ("numpy", "safetensors", "torch", "rich", "matplotlib", "tensorboard", "onnxruntime", "openvino", "MNN")


def add(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "doctor",
        help="show versions, kernels, threads and devices",
        description="Show what is installed, which kernels this machine runs, and where data sets are stored. "
        "Include the output in a bug report.",
        epilog="example: signwise doctor --json > doctor.json",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings as a table or as JSON."""
    findings = examine()
    if arguments.json:
        print(json.dumps(findings, indent=2))
        return 0
    rows = []
    for title, section in findings.items():
        rows += [(title, ""), *((f"  {name}", value) for name, value in section.items())]
    print(aligned(rows, left=(0, 1)))
    return 0


def examine() -> dict[str, dict[str, str]]:
    """All findings as text, by section and name."""
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
        name: found.get(name) or f"not installed ({install(name)})" for name in _PACKAGES
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
        return {"chosen": f"none, programs run in numpy: {reason}"}
    return {
        "chosen": chosen,
        "available": ", ".join(native.available_isas()) + " (set SIGNWISE_ISA to choose)",
        "threads": f"{native.default_threads()} (set SIGNWISE_THREADS to change)",
    }


def _devices() -> dict[str, str]:
    try:
        import torch
    except ImportError:
        return {"accelerator": "unknown without PyTorch; packed programs need none"}
    if torch.cuda.is_available():
        return {f"cuda:{index}": torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    if torch.backends.mps.is_available():
        return {"mps": "Apple GPU"}
    return {"accelerator": "none found; training uses the CPU"}


def _data() -> dict[str, str]:
    from signwise import datasets, shipped

    folder, variable = datasets.data_folder(), datasets.DATA_VARIABLE
    source = f"from {variable}" if os.environ.get(variable) else f"set {variable} to choose another"
    state = "" if folder.is_dir() else ", does not exist yet"
    return {
        "folder": f"{folder} ({source}{state})",
        "embedded": ", ".join(name for name, dataset in datasets.DATASETS.items() if dataset.embedded),
        "shipped programs": ", ".join(shipped.names()) or "none",
    }
