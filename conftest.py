"""Doctests of modules about packages that are not installed are left out."""

from __future__ import annotations

import importlib.util

_INTEGRATIONS = {
    "lightning": "lightning",
    "huggingface": "transformers",
    "quantizer": "transformers",
    "hub": "huggingface_hub",
}

collect_ignore = [
    f"src/signwise/integrations/{module}.py"
    for module, package in _INTEGRATIONS.items()
    if importlib.util.find_spec(package) is None
]
