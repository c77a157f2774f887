"""Where ``benchmarks/inference.py`` keeps what it measured: one file for each processor.

Ratios between engines differ from one kind of processor to the next, so a record of one machine does not replace that
of another.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def record_path(results: Path, processor: str) -> Path:
    """The file for a processor.

    Args:
        results: the folder of all records.
        processor: its name, as the system tells it.

    Example:
        >>> record_path(Path("results"), "Intel(R) Xeon(R) Processor").as_posix()
        'results/inference/intel-xeon-processor.json'
    """
    words = re.findall("[a-z0-9]+", re.sub(r"\((r|tm)\)", " ", processor.lower()))
    return results / "inference" / f"{'-'.join(words)}.json"


def read_records(results: Path) -> dict[Path, dict[str, Any]]:
    """All records, the newest first, by their files relative to the repository.

    Args:
        results: the folder of all records.
    """
    found = {
        path.relative_to(results.parent): json.loads(path.read_text(encoding="utf-8"))
        for path in (results / "inference").glob("*.json")
    }
    return dict(sorted(found.items(), key=lambda item: str(item[1]["date"]), reverse=True))
